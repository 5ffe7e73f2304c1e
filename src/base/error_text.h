#pragma once

#include <exception>
#include <optional>
#include <string>
#include <typeinfo>

namespace unisono::base {

/// The group of a controller's errors, whose culprit is the number of a worker, and named so. No group of ranks has this name.
inline constexpr const char* group_of_workers = "workers";

/// Returns the text of an exception: what() of a std::exception, a fixed text for any other; "" for none.
std::string what_of(const std::exception_ptr& error);
/// Returns the same, but of an Error the message alone: for a text that names operation, group and rank itself.
std::string message_of(const std::exception_ptr& error);

/// Returns whether an exception is an E, or derived from it.
template <class E>
bool is_a(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const E&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Returns the type's name without our namespace, as its user writes it.
std::string readable(const std::type_info& type);

/// An exception in words, as other processes hear of it.
struct Thrown {
  std::string type = {};           ///< "InvalidArgument", "std::out_of_range"
  std::string message = {};        ///< what(); empty where it is no std::exception
  bool of_peer = false;            ///< a PeerFailed or nested around one: the consequence of another rank's failure
  int culprit = -1;                ///< the rank blamed by an Error; -1: none
  std::optional<int> blamed = {};  ///< the same by its rank in the world, where that is known

  static Thrown describe(const std::exception_ptr& error);
  std::string text() const { return message.empty() ? type : type + ": " + message; }
};

}  // namespace unisono::base
