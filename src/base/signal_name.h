#pragma once

#include <string>

namespace unisono::base {

/// "SIGKILL", or "signal 40" where it has no name. Every text of ours names a signal so.
std::string signal_name(int signal);

}  // namespace unisono::base
