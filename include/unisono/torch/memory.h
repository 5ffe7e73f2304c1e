#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include "unisono/export.h"

// CPU tensors in memory that all ranks of the host can reach (unisono/shared_memory.h). They are
// tensors like any other. If all ranks' tensors of a large call are such, they are read and written
// in place, without copies in between.

namespace unisono {

/// Returns an allocator that takes memory from shared_resource(), aligned to cache lines. It lives
/// as long as the process.
///
/// Memory is freed by the last tensor that uses it, however long after `finalize`. If the pool is
/// full or the system grants none, the memory is ordinary.
UNISONO_API c10::Allocator* shared_allocator() noexcept;

/// Makes a tensor as torch::empty(sizes, options) does.
///
/// @throws InvalidArgument for a device other than the cpu, a layout other than strided, and pinned
///   memory
[[nodiscard]] UNISONO_API at::Tensor empty_shared(at::IntArrayRef sizes, const at::TensorOptions& options = {});

/// Returns the tensor itself if is_shared(tensor), otherwise a dense copy that keeps the order of its
/// strides. Autograd sees what it sees of Tensor::to.
///
/// ```cpp
/// parameter.set_data(to_shared(parameter.detach()));
/// ```
///
/// @throws InvalidArgument for an undefined tensor, and for one that is not a strided one of the
///   cpu
[[nodiscard]] UNISONO_API at::Tensor to_shared(const at::Tensor& tensor);

/// Tells whether the tensor's elements lie where all ranks of the host can reach them. For a tensor
/// of no elements it tells so of its empty memory.
[[nodiscard]] UNISONO_API bool is_shared(const at::Tensor& tensor);

}  // namespace unisono
