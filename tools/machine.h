#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace unisono::tools {

/// Facts about this host, as /proc and /sys tell them; what they do not tell is empty.
std::string cpu_model();
std::string kernel_version();
/// "0-3,8": the processors this process may use.
std::string affinity_list();
int affinity_count();
/// Bytes that the control group may use; nothing where they are not limited.
std::optional<std::uint64_t> cgroup_memory_limit();
/// The chosen one of a line like "always [madvise] never", or the only word of the file.
std::string chosen_word(const std::string& path);

/// Ticks since the start of the machine.
struct ProcessorTime {
  std::uint64_t all = 0;
  std::uint64_t stolen = 0;  ///< by other guests of the same machine
};
ProcessorTime processor_time();
double stolen_share(const ProcessorTime& before, const ProcessorTime& after);

/// A line or two above a measurement.
std::string describe_machine();
/// The cache that a core has to itself, second level: 1 MiB where the system does not say.
std::size_t private_cache_bytes();

}  // namespace unisono::tools
