#pragma once

#include <exception>
#include <string>

namespace unisono::base {

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

}  // namespace unisono::base
