#pragma once

#include "unisono/tensor.h"

namespace unisono::kernels {

/// Writes the elements of `strided` row by row to `contiguous`, which has room for strided.bytes() and does not overlap it.
/// Strides may be negative, and 0 where an element stands for many.
void pack(void* contiguous, const Tensor& strided);

/// The reverse. Throws InvalidArgument where a stride of 0 would put several elements in one place.
void unpack(const Tensor& strided, const void* contiguous);

}  // namespace unisono::kernels
