#pragma once

#include <cstddef>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::kernels {

/// Reduces the pairs that vector instructions lack the arithmetic for: avg of integers, product of integers of 1 and of 8 bytes.
void reduce_scalar(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, DType dtype, ReduceOp op, std::size_t divisor);

}  // namespace unisono::kernels
