#pragma once

#include <cstddef>
#include <span>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::group {

/// A reduction in two stages, of which the first combines what one rank has and an operation of the group the rest, so that the result is what one
/// stage would have given where rounding or wrapping between them would show: halves travel as float32 and are rounded once, an average of
/// integers as the two halves of an exact sum, and every average is divided once, at the end.
class WideSum {
 public:
  /// Of `tensors` on each of `ranks`. With one tensor there is one stage only.
  WideSum(DType dtype, ReduceOp op, std::size_t tensors, int ranks);

  /// What the operation of the group works on: elements of this dtype and, of one element, this many bytes.
  DType dtype() const { return wide_; }
  std::size_t element_bytes() const { return size_of(wide_) * words_; }
  ReduceOp op() const { return divides_ ? ReduceOp::sum : op_; }

  /// The tensors, which may be strided, in the order of the list.
  void combine(std::byte* out, std::span<const TensorView> tensors) const;
  /// `out`: `count` elements of the original dtype.
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
