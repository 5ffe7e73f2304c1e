#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace unisono::store {

/// The limits of a store. A server enforces them against its clients. The other stores enforce the same ones, so that a program that works with one
/// store works with all.
struct Limits {
  std::size_t key_bytes = std::size_t{8} << 10;
  std::size_t value_bytes = std::size_t{8} << 20;
  std::size_t keys = std::size_t{1} << 20;
  std::size_t total_bytes = std::size_t{1} << 30;
};

/// The keys and values of a store, without waiting and locking. Every kind of store gives access to one of these. A call that the limits or the value
/// forbid throws InvalidArgument and changes nothing.
class Table {
 public:
  explicit Table(Limits limits = {}) : limits_(limits) {}

  void set(std::string_view key, std::string_view value);
  /// Throws where `set` would throw.
  void admit(std::string_view key, std::string_view value) const;
  const std::string* find(std::string_view key) const;
  std::int64_t add(std::string_view key, std::int64_t amount);
  /// Returns the value after the call; empty where there is none.
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired);
  bool erase(std::string_view key);
  /// Returns those of the keys that do not exist.
  std::vector<std::string> missing(std::span<const std::string> keys) const;
  std::size_t size() const { return entries_.size(); }

  /// Returns the value that `add` would store.
  static std::int64_t sum(std::string_view key, const std::string* value, std::int64_t amount);
  static void check(const Limits& limits, std::string_view key, std::string_view value);

 private:
  std::size_t bytes_with(std::string_view key, std::string_view value) const;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  Limits limits_;
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> entries_;
  std::size_t bytes_ = 0;
};

/// Returns a key as messages show it: short, and without control characters.
std::string printable(std::string_view key);

/// Throws Timeout: "<place>: no value for "a", "b" within 500 ms".
[[noreturn]] void throw_missing(std::string_view place, std::span<const std::string> missing, std::chrono::milliseconds timeout);

}  // namespace unisono::store
