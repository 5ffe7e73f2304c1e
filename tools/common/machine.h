#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::tools {

/// Return facts about this host from /proc and /sys; unknown ones are empty.
std::string cpu_model();
std::string kernel_version();
/// Returns the processors that this process may use, such as "0-3,8".
std::string affinity_list();
int affinity_count();
/// Returns the chosen word of a line like "always [madvise] never", or the only word of the file.
std::string chosen_word(const std::string& path);

/// Returns the word behind this one at the beginning of a line: field_of("/proc/meminfo", "MemFree:"). Empty: there is none.
std::string field_of(const std::string& path, std::string_view name);

/// Returns how many NVIDIA GPUs programs of this host see: those with a device file, or those of them that CUDA_VISIBLE_DEVICES names.
int visible_gpus(const char* named = std::getenv("CUDA_VISIBLE_DEVICES"), const std::string& folder = "/dev");

/// Ticks since the machine started.
struct ProcessorTime {
  std::uint64_t all = 0;
  std::uint64_t stolen = 0;  ///< used by other guests of the same machine
};
ProcessorTime processor_time();
double stolen_share(const ProcessorTime& before, const ProcessorTime& after);

/// Returns a line or two that are printed above a measurement.
std::string describe_machine();
/// Returns the size of the second-level cache, which each core has to itself; 1 MiB where it is unknown.
std::size_t private_cache_bytes();

}  // namespace unisono::tools
