#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "unisono/export.h"
#include "unisono/tensor.h"

// The headers for types of other libraries (eigen.h, mdspan.h, kokkos.h, thrust.h) share these
// functions.

namespace unisono::detail {

/// Returns a view of elements that lie without gaps, in any order of the dimensions: a contiguous
/// one, whose extents are in the order of the memory, the slowest one first.
///
/// @param strides one for each extent, in elements
/// @param type the name of the caller's type in the error: "an Eigen::Map"
/// @throws InvalidArgument for elements with gaps between them, and for elements that overlap
UNISONO_API TensorView dense_view(void* data, DType dtype, std::span<const std::int64_t> extents, std::span<const std::int64_t> strides,
                                  std::string_view type, Device device = {});

/// Returns the device of memory that is known to be a CUDA device's: what its runtime says, or
/// device 0 if this process has no runtime, for which calls throw BackendUnavailable.
UNISONO_API Device cuda_device_of(const void* data);

}  // namespace unisono::detail
