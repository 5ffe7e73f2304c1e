#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::detail {

/// A tensor and the name that ranks compare.
struct NamedTensor {
  std::string name;
  TensorView view;
};

/// Sorts tensors by their names: the order in which all ranks work on them, whatever the order of
/// the dictionary that they come from.
UNISONO_API void sort_by_name(std::vector<NamedTensor>& tensors);

/// The options of reduce_together.
struct Together {
  /// The function that the user called, a string literal.
  std::string_view label;
  ReduceOp op = ReduceOp::sum;
  bool coalesce = true;
  /// The bytes at which a bucket is full.
  std::size_t bucket_bytes = SIZE_MAX;
};

/// Reduces each tensor in place, with one all_reduce for as many of a dtype as fit a bucket.
///
/// Names, dtypes and shapes are compared first, in the order given. If they differ, all ranks throw
/// Mismatch, which says where, and nothing is moved.
UNISONO_API void reduce_together(const std::vector<NamedTensor>& tensors, const Together& how, const ProcessGroup& group, const CallOptions& options);

}  // namespace unisono::detail
