#include "base/signal_name.h"

#include <cstring>

namespace unisono::base {

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace unisono::base
