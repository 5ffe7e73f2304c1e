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

struct NamedTensor {
  std::string name;
  TensorView view;
};

/// The order in which all ranks work on them, whatever the order of the dictionary that they come from.
UNISONO_API void sort_by_name(std::vector<NamedTensor>& tensors);

struct Together {
  std::string_view label;  ///< what the user called, a string literal
  ReduceOp op = ReduceOp::sum;
  bool coalesce = true;
  std::size_t bucket_bytes = SIZE_MAX;  ///< a bucket is full once it has as many
};

/// all_reduce of each, in place, one operation for as many of a dtype as fit a bucket. Names, dtypes and shapes are compared first, in the order
/// given; where they differ, all ranks throw Mismatch that says where, and nothing is moved.
UNISONO_API void reduce_together(const std::vector<NamedTensor>& tensors, const Together& how, const ProcessGroup& group, const CallOptions& options);

}  // namespace unisono::detail
