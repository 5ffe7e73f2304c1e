#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "recorder/layout.h"
#include "unisono/operation.h"

namespace unisono::recorder {

/// Gives the calls of one operation in all groups of one name an entry of a record's counts.
class CallCounter {
 public:
  explicit CallCounter(CountTable& table) : table_(table) {}

  /// Has the calls of the group with this number counted by its name.
  void add_group(std::uint16_t number, std::string_view name);
  /// Returns the number of the entry in which such a call is counted.
  std::uint16_t entry_of(std::uint16_t group, Operation operation, std::uint8_t label) noexcept {
    constexpr std::uint32_t golden = 2654435769U;  // 2^32 divided by the golden ratio spreads keys that differ in a few bits
    constexpr int bits = 7;
    static_assert(CountTable::most_counts == 1U << bits);
    const std::uint8_t name = counted_as_[group % counted_as_.size()].load(std::memory_order_relaxed);
    const std::uint32_t key = CountKey{.group = name, .operation = static_cast<std::uint8_t>(operation), .label = label}.pack();
    const std::size_t at = key * golden >> (32 - bits);
    if (table_.keys[at].load(std::memory_order_relaxed) == key) [[likely]]
      return static_cast<std::uint16_t>(at);
    return find(key, at);
  }

 private:
  std::uint16_t find(std::uint32_t key, std::size_t from) noexcept;
  std::uint8_t name_of(std::string_view group);

  CountTable& table_;
  /// By the number of a group, modulo the length, that of its name in the table.
  std::array<std::atomic<std::uint8_t>, 1024> counted_as_{};
  std::atomic<std::uint32_t> used_{0};
  std::mutex mutex_;  // of what follows, and of new keys
  std::uint8_t names_ = 1;
};

}  // namespace unisono::recorder
