#pragma once

#include <cstddef>
#include <optional>

#include "engines/nccl/loader.h"

namespace unisono::engines::nccl {

/// The driver's management library, where there is one. It tells of devices without the CUDA runtime.
NvmlApi find_management(Libraries& libraries);

/// How many devices the driver has; nothing where nobody tells. Leaves nothing behind that a forked child could miss.
std::optional<unsigned> devices_of_driver(const NvmlApi& nvml);

/// Bytes of a device's memory that this process has; nothing where the driver does not tell, as it may not in a container or a virtual machine.
std::optional<std::size_t> memory_of_process(const Vendor& vendor, int device);

}  // namespace unisono::engines::nccl
