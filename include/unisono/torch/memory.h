#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include "unisono/export.h"

// CPU tensors in memory that all ranks of the host can reach (unisono/shared_memory.h). They are tensors like any other; where all ranks' tensors of
// a large call are such, they are read and written in place, without copies in between.

namespace unisono {

/// Allocates from shared_resource(), on cache lines; lives as long as the process. What it gave out is freed by the last tensor that uses it, however
/// long after finalize. Where the pool is full or the system grants none, the memory is ordinary.
UNISONO_API c10::Allocator* shared_allocator() noexcept;

/// As torch::empty(sizes, options). InvalidArgument for a device other than the cpu, a layout other than strided, and pinned memory.
[[nodiscard]] UNISONO_API at::Tensor empty_shared(at::IntArrayRef sizes, const at::TensorOptions& options = {});

/// The tensor itself where is_shared(tensor); else a copy, which is dense, with the strides of a dense tensor kept. Autograd sees what it sees of
/// Tensor::to. A parameter moves by `parameter.set_data(to_shared(parameter.detach()))`. InvalidArgument for an undefined tensor, and one that is not
/// a strided one of the cpu.
[[nodiscard]] UNISONO_API at::Tensor to_shared(const at::Tensor& tensor);

/// Whether the tensor's elements lie where all ranks of the host can reach them. Of no elements: whether its (empty) memory does.
[[nodiscard]] UNISONO_API bool is_shared(const at::Tensor& tensor);

}  // namespace unisono
