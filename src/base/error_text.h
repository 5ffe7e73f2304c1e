#pragma once

#include <exception>
#include <string>

namespace unisono::base {

/// What an exception says: what() of a std::exception, and a word for any other; "" for none.
std::string what_of(const std::exception_ptr& error);
/// The same, of an Error only its sentence: for a message that names operation, group and rank itself.
std::string message_of(const std::exception_ptr& error);

}  // namespace unisono::base
