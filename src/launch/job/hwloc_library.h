#pragma once

#include <string>
#include <string_view>
#include <vector>

// The interface between the launcher and libunisono-hwloc.so, the only file that is linked with hwloc. The plug-in is opened when parts of this host
// are asked for. No exception passes through it.
namespace unisono::launcher {

/// What the processors of a part have in common.
enum class PartKind { l3_cache, numa_node };

/// The functions that the plug-in exports.
struct HwlocLibrary {
  /// Returns the processors of each part, in the order of the host. No processor is in two of them. Empty: `why` says why.
  std::vector<std::vector<int>> (*parts)(PartKind kind, std::string& why) noexcept;
};

/// The plug-in's one function: returns null unless it was built for this very version of the library.
inline constexpr std::string_view hwloc_entry = "unisono_hwloc_library";
using HwlocEntry = const HwlocLibrary* (*)(const char* version_of_unisono);

}  // namespace unisono::launcher
