#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace unisono::base {

/// The processors that a process may use, as numbers that other processes can read.
struct Processors {
  std::array<std::uint64_t, 16> mask{};         ///< a bit for each, by the system's number; of the affinity mask
  int quota = std::numeric_limits<int>::max();  ///< so many of them at a time, by the control group

  void add(const Processors& others);
  int count() const;  ///< at least 1
};

/// Returns those of the calling thread.
Processors own_processors();
/// Returns those of the first thread of a process of this host; none where there is no such process.
Processors processors_of(int pid);

/// Returns how many processors this process may use: the affinity mask and the control group's quota, at least 1.
int allowed_processors();

}  // namespace unisono::base
