#pragma once

#include <vector>

namespace unisono::base {

/// Returns the processors that the first thread of a process of this host may run on, ascending, however many the host has; 0: the calling thread.
/// They are those of its affinity mask within the sets of its control groups, as the kernel keeps them. Empty where there is no such process.
std::vector<int> affinity_of(int pid);

}  // namespace unisono::base
