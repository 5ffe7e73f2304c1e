#pragma once

#include <exception>
#include <string>

namespace unisono::base {

/// Returns the text of an exception: what() of a std::exception, a fixed text for any other; "" for none.
std::string what_of(const std::exception_ptr& error);
/// Returns the same, but of an Error the message alone: for a text that names operation, group and rank itself.
std::string message_of(const std::exception_ptr& error);

}  // namespace unisono::base
