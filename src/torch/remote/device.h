#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>

#include "torch/remote/wire.h"

// The device "remote" of PyTorch: its name, its kernels, its current number, its generators.

namespace unisono::libtorch {

/// The function of a worker that carries out commands.
inline constexpr const char* command_name = "torch.remote";
inline constexpr const char* command_signature = "(command) -> answer";

/// Makes the name "remote" and the kernels known to PyTorch, once. Does nothing if the program has another backend of its own, of which
/// check_device then complains.
void register_device();
/// @throws Unsupported if the program has another backend under PrivateUse1
/// @throws InvalidArgument if autograd was started before there was a controller, without threads for so many workers
void check_device(int workers);

/// Returns the calling thread's current worker.
int current_worker() noexcept;
void set_current_worker(int worker) noexcept;
c10::Allocator* device_allocator() noexcept;

/// Registers the kernels that send operators to workers.
void register_operators();
/// Registers PyTorch's hooks: generators, and the number of devices.
void register_hooks();

}  // namespace unisono::libtorch
