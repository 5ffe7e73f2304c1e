#pragma once

#include <exception>
#include <string_view>
#include <utility>

#include "unisono/process_group.h"

namespace unisono::libtorch {

/// Makes all ranks throw if any of them has an error. Collective. A rank with an error throws its own, as InvalidArgument or CheckpointError; the
/// others throw that of the lowest rank with an error. The group stays usable.
void share_outcome(const ProcessGroup& group, std::string_view operation, const std::exception_ptr& own);

/// Runs f; an error of any rank is thrown on all of them.
template <class F>
void for_all(const ProcessGroup& group, std::string_view operation, F&& f) {
  std::exception_ptr error;
  try {
    std::forward<F>(f)();
  } catch (...) {
    error = std::current_exception();
  }
  share_outcome(group, operation, error);
}

}  // namespace unisono::libtorch
