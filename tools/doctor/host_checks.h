#pragma once

#include "doctor/finding.h"

// What can be wrong on one host, whatever the others are like.
namespace unisono::tools {

/// Looks at the limits, the memory and the settings of the kernel. `ranks`: as many as the host is to run.
Findings check_host(int ranks);

/// Returns the number in a file of one line, such as those below /proc/sys; -1 where there is none.
long long number_in(const char* path);

}  // namespace unisono::tools
