#pragma once

#include <exception>
#include <source_location>
#include <string>

#include "unisono/error.h"

namespace unisono::base {

// set_place (unisono/error.h) records in an error where it was called from, unless the error has a place already or the place lies in this library.
// No other thread may know the error.

/// Returns true for a place in the sources of this library, which says nothing to its users.
bool is_own_place(const std::source_location& where);

/// Returns "train.cpp:12"; empty where the place is not known, or lies in this library.
std::string place_text(const std::source_location& where);

/// Records the place in the exception, if it is an Error, and returns the exception.
std::exception_ptr placed(std::exception_ptr error, const std::source_location& where);

/// Calls f and records the place in the Error that f throws.
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
