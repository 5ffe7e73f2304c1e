#pragma once

#include <exception>
#include <source_location>

#include "unisono/error.h"

namespace unisono::base {

// set_place (unisono/error.h) says in an error where it was called from, unless the error says so already, or the place lies in this library. The
// error must be known to no other thread.

/// The same of what an exception_ptr holds, if that is an Error.
std::exception_ptr placed(std::exception_ptr error, const std::source_location& where);

/// The same of what f throws.
template <class F>
decltype(auto) with_place(const std::source_location& where, F&& f) {
  try {
    return f();
  } catch (Error& error) {
    set_place(error, where);
    throw;
  }
}

}  // namespace unisono::base
