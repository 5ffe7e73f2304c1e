#pragma once

#include <cstddef>
#include <optional>

#include "engines/nccl/loader.h"

namespace unisono::engines::nccl {

/// Finds the driver's management library, where there is one. It knows devices without the CUDA runtime.
NvmlApi find_management(Libraries& libraries);

/// Returns how many devices the driver has; nothing where it is not known. It leaves no state that a forked child would miss.
std::optional<unsigned> devices_of_driver(const NvmlApi& nvml);

/// Returns the bytes of a device's memory that this process has; nothing where the driver does not tell, as may be in a container or a virtual
/// machine.
std::optional<std::size_t> memory_of_process(const Vendor& vendor, int device);

}  // namespace unisono::engines::nccl
