#pragma once

#include <cstddef>
#include <span>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::group {

/// A reduction in two stages with the result of one: the first stage combines the tensors of one rank, the second is an operation of the group.
/// Nothing is rounded or wrapped in between: float16 and bfloat16 travel as float32, an average of integers as the two halves of an exact sum, and
/// every average is divided once, at the end.
class WideSum {
 public:
  /// `tensors`: their number on each of the ranks. With one tensor there is one stage only.
  WideSum(DType dtype, ReduceOp op, std::size_t tensors, int ranks);

  /// The operation of the group works on elements of this dtype, with this many bytes for each original element.
  DType dtype() const { return wide_; }
  std::size_t element_bytes() const { return size_of(wide_) * words_; }
  ReduceOp op() const { return divides_ ? ReduceOp::sum : op_; }

  /// The first stage. The tensors may be strided; they are combined in the order of the list.
  void combine(std::byte* out, std::span<const TensorView> tensors) const;
  /// Makes `count` elements of the original dtype of the second stage's result.
  void finish(std::byte* out, const std::byte* reduced, std::size_t count) const;

 private:
  DType dtype_;
  ReduceOp op_;
  std::size_t divisor_;
  DType wide_;
  std::size_t words_ = 1;
  bool divides_ = false;
};

}  // namespace unisono::group
