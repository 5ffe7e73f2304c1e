#pragma once

#include <cstdint>
#include <vector>

#include "unisono/tensor.h"

namespace unisono::kernels {

/// Writes the elements of `strided` row by row to `contiguous`, which has room for strided.bytes() and does not overlap it. Strides may be negative,
/// and 0 where one element is repeated.
void pack(void* contiguous, const TensorView& strided);

/// A dimension of such a copy: its extent, and the bytes between neighbours on either side.
struct Axis {
  std::int64_t extent = 1;
  std::int64_t to = 0;
  std::int64_t from = 0;
};
/// Returns the dimensions of a copy between a strided view, whose steps go to the member `strided`, and rows without gaps, innermost first.
/// Dimensions that form one run of steps on both sides are merged. An empty result stands for a single element.
std::vector<Axis> axes_of(const TensorView& tensor, std::int64_t Axis::*strided, std::int64_t Axis::*dense);

/// Writes the elements of `contiguous` to `strided`. Throws InvalidArgument where a stride of 0 would put several elements in one place.
void unpack(const TensorView& strided, const void* contiguous);

}  // namespace unisono::kernels
