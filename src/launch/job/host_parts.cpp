#include "launch/job/host_parts.h"

#include <fmt/format.h>

#include "base/code_file.h"
#include "base/version.h"
#include "launch/job/hwloc_library.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

/// Returns why hwloc cannot be asked, or empty text and the functions that ask it.
std::string find_hwloc(const HwlocLibrary*& library) {
#ifdef UNISONO_WITHOUT_HWLOC
  library = nullptr;
  return "this build of unisono has no hwloc (Debian: libhwloc-dev, and UNISONO_HWLOC=ON, when it is built)";
#else
  const base::PlugIn plug_in = base::find_plug_in("libunisono-hwloc.so", hwloc_entry);
  if (plug_in.entry == nullptr) return fmt::format("hwloc cannot be asked: {} (Debian: libhwloc15)", plug_in.why_not);
  const std::string version = to_string(base::library_version());
  library = reinterpret_cast<HwlocEntry>(plug_in.entry)(version.c_str());
  return library != nullptr ? "" : fmt::format("{} was not built for unisono {}", plug_in.path, version);
#endif
}

}  // namespace

HostParts parts_of_host(Binding binding) {
  if (binding != Binding::l3 && binding != Binding::numa) return {};
  const bool is_numa = binding == Binding::numa;
  const HwlocLibrary* library = nullptr;
  HostParts parts{.name = is_numa ? "NUMA node" : "L3 cache"};
  std::string why_not = find_hwloc(library);
  if (library != nullptr) parts.processors = library->parts(is_numa ? PartKind::numa_node : PartKind::l3_cache, why_not);
  if (parts.processors.empty())
    throw StartFailed(fmt::format("--bind {}: {}; --bind core and none, and the ranks' shares, need no hwloc", is_numa ? "numa" : "l3", why_not), 1);
  return parts;
}

}  // namespace unisono::launcher
