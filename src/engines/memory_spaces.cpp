// The devices of memory that other libraries have allocated.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "unisono/detail/dense_view.h"
#include "unisono/device_runtime.h"
#include "unisono/error.h"
#include "unisono/kokkos.h"

namespace unisono::detail {

Device cuda_device_of(const void* data) {
  DeviceRuntime* const runtime = device_runtime();
  return runtime != nullptr ? runtime->device_of(data) : Device{.type = Device::Type::cuda, .index = 0};
}

Device device_of_kokkos(std::string_view memory_space, const void* data) {
  constexpr std::array<std::string_view, 9> of_the_host{"Host",       "HBW",         "CudaUVM",       "CudaHostPinned", "HIPHostPinned",
                                                        "HIPManaged", "SYCLHostUSM", "SYCLSharedUSM", "Anonymous"};
  if (memory_space == "Cuda") return cuda_device_of(data);
  if (std::find(of_the_host.begin(), of_the_host.end(), memory_space) != of_the_host.end()) return {};
  throw Unsupported("a Kokkos::View in the memory space " + std::string(memory_space) + " cannot be communicated",
                    {.hint = "copy it to the host: Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view)"});
}

}  // namespace unisono::detail
