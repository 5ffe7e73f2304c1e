#pragma once

#include <exception>
#include <utility>

namespace unisono::libtorch {

/// The same error as torch.distributed's users know it: DistBackendError (a RuntimeError) for what becomes of a group, DistStoreError for the store
/// it meets by, ValueError for a call that is wrong by itself. Its text is ours, with Python's names for what it speaks of. What is torch's already
/// stays as it is.
std::exception_ptr as_torch_error(const std::exception_ptr& error);
/// Throws that, from inside a handler. `joining`: what the user has called, where a group was to be formed.
[[noreturn]] void throw_torch_error(const char* joining = "init_process_group");

/// The result of f, whose errors are torch's.
template <class F>
decltype(auto) with_torch_errors(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    throw_torch_error();
  }
}

}  // namespace unisono::libtorch
