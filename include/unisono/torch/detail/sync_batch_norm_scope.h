#pragma once

#include "unisono/export.h"
#include "unisono/process_group.h"

namespace unisono::libtorch {

/// A scope in which batch normalisation takes its statistics from all ranks of the group, in this
/// thread and wherever training asks for those of the batch: torch::nn::BatchNorm1d, 2d, 3d and the
/// function alike.
///
/// Modules keep their types: in C++ a member of type BatchNorm2d cannot become another type.
class UNISONO_API SyncBatchNormScope {
 public:
  /// Begins the scope. A null group leaves batch normalisation as it is.
  explicit SyncBatchNormScope(const ProcessGroup* group);
  ~SyncBatchNormScope();
  SyncBatchNormScope(const SyncBatchNormScope&) = delete;
  SyncBatchNormScope& operator=(const SyncBatchNormScope&) = delete;

 private:
  const ProcessGroup* before_;
};

}  // namespace unisono::libtorch
