#pragma once

#include <cstddef>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::kernels {

/// Returns true where `op` is defined on `dtype` (the table in reduce_op.h).
bool supports(DType dtype, ReduceOp op) noexcept;

/// Computes out[i] = inputs[0][i] op inputs[1][i] op ... from left to right, for `count` elements of each of the `fan_in` >= 1 inputs.
///
/// `out` may be one of the inputs, but must not overlap one in part; no address needs to be aligned. Only avg reads `divisor`: the number
/// (not 0) by which the finished sum is divided once. avg of integers sums exactly, so partial results cannot stand among its inputs;
/// halves are summed in float and rounded once, so a chain of calls rounds more often than one call.
/// Throws InvalidArgument for a pair that supports() refuses, for no inputs, and for avg by 0.
///
/// The bits of a result depend only on its input elements and their order: not on index, count, alignment or instruction set. A NaN's sign and
/// payload would depend on the order of operands, so every NaN result is the quiet one with positive sign and no payload. A fan-in of 1 is a copy,
/// NaN included, where op leaves an element as it is (all but avg, land, lor and those on boolean).
void reduce(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, DType dtype, ReduceOp op, std::size_t divisor);

}  // namespace unisono::kernels
