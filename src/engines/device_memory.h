#pragma once

#include <cstddef>

#include "unisono/tensor.h"

namespace unisono::engines {

/// Returns the bytes in use on a device: this process's where the driver tells, else all processes'.
std::size_t device_memory_in_use(Device device);
/// Returns the largest number that was found so far.
std::size_t device_memory_peak() noexcept;
/// Takes a sample, unless one was taken just before: sampling takes some time.
void sample_device_memory(Device device) noexcept;

}  // namespace unisono::engines
