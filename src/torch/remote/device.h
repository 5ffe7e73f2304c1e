#pragma once

#include <c10/core/Allocator.h>

// The device "remote" of PyTorch: its name, its kernels, its current number, its generators.

namespace unisono::libtorch {

/// Makes the name "remote" and the kernels known to PyTorch, once. If the program has another backend of its own, remote tensors are refused.
void register_device();

/// Returns the allocator of the device, which allocates nothing here.
c10::Allocator* device_allocator() noexcept;

/// Registers the kernels that send operators to workers.
void register_operators();
/// Registers PyTorch's hooks: generators, and the number of devices.
void register_hooks();

}  // namespace unisono::libtorch
