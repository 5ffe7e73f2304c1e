#pragma once

#include <cstddef>

#include "unisono/tensor.h"

namespace unisono::engines {

/// Bytes in use on a device: this process's where the driver tells, else all processes'.
std::size_t device_memory_in_use(Device device);
/// The most that there was whenever one looked.
std::size_t device_memory_peak() noexcept;
/// Looks, unless one has just done so: it takes a moment.
void sample_device_memory(Device device) noexcept;

}  // namespace unisono::engines
