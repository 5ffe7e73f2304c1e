#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// As its user spells it: without our namespace.
std::string readable(const std::type_info& type);

/// An exception, as far as it can leave its process.
struct Thrown {
  std::string type = {};     ///< "InvalidArgument", "std::out_of_range"
  std::string message = {};  ///< what(); empty where it is no std::exception
  bool of_peer = false;      ///< PeerFailed, or nested around one: the consequence of another rank's failure
  int culprit = -1;          ///< the rank that an Error blames; -1: none

  static Thrown describe(const std::exception_ptr& error);
  std::string text() const { return message.empty() ? type : type + ": " + message; }
};

/// What a forked rank leaves for its parent: the bytes its function returned, or what it threw. It lies in memory that both have open, so that a
/// result of any size is written without anybody reading meanwhile. A rank that ends before it has left anything has left nothing.
class Outcome {
 public:
  /// Before fork. LaunchFailed where the system refuses.
  Outcome();

  // In the rank, one of them, once. LaunchFailed where there is no memory for it.
  void put_result(std::span<const std::byte> bytes);
  void put_error(const Thrown& error);

  // In the parent, when the rank has ended.
  bool has_result() const;
  std::optional<Thrown> error() const;
  std::vector<std::byte> take_result();  ///< and lets go of the memory

  void close() { file_.reset(); }

 private:
  enum class Kind : int { nothing, result, error };
  struct Header {
    Kind kind = Kind::nothing;
    bool of_peer = false;
    int culprit = -1;
    std::size_t type_bytes = 0;
    std::size_t bytes = 0;
  };
  Header header() const;
  void put(std::span<const std::byte> bytes, std::size_t at);
  void read(void* bytes, std::size_t count, std::size_t at) const;

  base::FileDescriptor file_;
};

}  // namespace unisono::launcher
