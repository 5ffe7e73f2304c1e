#pragma once

#include <string>

namespace unisono::launcher {

/// Returns what the main thread of a process waits for in the system: "reads the named pipe /tmp/part2", "waits for a mutex that it has locked
/// itself". The process is neither stopped nor asked. Empty where the thread does not wait, or where the system does not tell.
std::string system_wait_of(int pid);

}  // namespace unisono::launcher
