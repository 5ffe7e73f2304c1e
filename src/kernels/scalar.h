#pragma once

#include <cstddef>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::kernels {

/// reduce() in plain C++, for a pair that supports() accepts: what each op means, and the path of the pairs that vectors cannot speed up.
void reduce_scalar(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, DType dtype, ReduceOp op, std::size_t divisor);

}  // namespace unisono::kernels
