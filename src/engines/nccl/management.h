#pragma once

#include <cstddef>
#include <optional>

#include "engines/nccl/api.h"
#include "engines/nccl/libraries.h"

namespace unisono::engines::nccl {

/// Finds the driver's management library, where there is one. It knows devices without the CUDA runtime.
NvmlApi find_management(Libraries& libraries);

/// Returns how many devices the driver has; nothing where it is not known. It leaves no state that a forked child would miss.
std::optional<unsigned> devices_of_driver(const NvmlApi& nvml);

/// Returns the bytes of a device's memory that this process has; nothing if the driver does not tell, as may be in a container or a virtual machine.
/// `bus`: the device's PCI address, as the CUDA runtime writes it.
std::optional<std::size_t> memory_of_process(const NvmlApi& nvml, const std::string& bus);

}  // namespace unisono::engines::nccl
