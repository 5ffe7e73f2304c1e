#pragma once

#include <exception>
#include <utility>

#include "unisono/c/types.h"
#include "unisono/error.h"

namespace unisono::c {

/// The program was compiled with headers that this library does not serve, or uses a member of a structure that it does not know.
class WrongVersion final : public Error {
 public:
  using Error::Error;
  ~WrongVersion() override;
};

/// Keeps what this thread's unisono_error_* functions tell, and returns the code.
unisono_status keep_error(const std::exception_ptr& error) noexcept;

/// Calls f and returns what became of it. Every exception ends here.
template <class F>
unisono_status guarded(F&& f) noexcept {
  try {
    std::forward<F>(f)();
    return UNISONO_OK;
  } catch (...) {
    return keep_error(std::current_exception());
  }
}

}  // namespace unisono::c
