#pragma once

#include <exception>
#include <utility>

namespace unisono::libtorch {

/// Returns the error as users of torch.distributed know it: DistBackendError (a RuntimeError) for failures of a group, DistStoreError for its store,
/// ValueError for a call that is wrong by itself. The text is ours, with the names of Python. Errors of torch's own are returned unchanged.
std::exception_ptr as_torch_error(const std::exception_ptr& error);
/// Throws such an error from inside a handler. `joining` is the user's call where a group was to be formed.
[[noreturn]] void throw_torch_error(const char* joining = "init_process_group");

/// Returns the result of f, with its errors converted to torch's.
template <class F>
decltype(auto) with_torch_errors(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    throw_torch_error();
  }
}

}  // namespace unisono::libtorch
