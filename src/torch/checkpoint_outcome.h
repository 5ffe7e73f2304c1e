#pragma once

#include <exception>
#include <string_view>
#include <utility>

#include "unisono/process_group.h"

namespace unisono::libtorch {

/// Collective: where any rank has an error all throw, an InvalidArgument or CheckpointError as what it is; who has none, that of the lowest rank that
/// has one. The group stays usable.
void share_outcome(const ProcessGroup& group, std::string_view operation, const std::exception_ptr& own);

/// Runs f, whose errors are everybody's.
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
