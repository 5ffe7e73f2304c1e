#pragma once

#include <exception>
#include <optional>
#include <string>
#include <typeinfo>

namespace unisono::base {

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
