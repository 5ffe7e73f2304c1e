#pragma once

#include <string>

namespace unisono::base {

/// Returns "SIGKILL", or "signal 40" for a signal without a name.
std::string signal_name(int signal);

}  // namespace unisono::base
