// libunisono-hwloc.so: the parts of this host, by hwloc.
#include <cstring>
#include <exception>

#include "launch/hwloc/parts.h"

namespace unisono::launcher {
namespace {

std::vector<std::vector<int>> parts(PartKind kind, std::string& why) noexcept {
  try {
    const Topology host = read_host();
    if (host == nullptr) {
      why = "hwloc cannot read the processors of this host";
      return {};
    }
    std::vector<std::vector<int>> found = parts_in(host.get(), kind);
    if (found.empty()) why = kind == PartKind::numa_node ? "hwloc finds no NUMA node on this host" : "hwloc finds no third-level cache on this host";
    return found;
  } catch (const std::exception& error) {
    why = error.what();
    return {};
  }
}

}  // namespace
}  // namespace unisono::launcher

extern "C" __attribute__((visibility("default"))) const unisono::launcher::HwlocLibrary* unisono_hwloc_library(const char* version_of_unisono) {
  if (std::strcmp(version_of_unisono, UNISONO_HWLOC_FOR) != 0) return nullptr;
  static constexpr unisono::launcher::HwlocLibrary library{.parts = unisono::launcher::parts};
  return &library;
}
