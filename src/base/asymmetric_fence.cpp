#include "base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace unisono::base {

std::atomic<bool> AsymmetricFence::registered{false};

void AsymmetricFence::register_process() noexcept {
  static const bool is_registered = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  registered.store(is_registered, std::memory_order_relaxed);
}

bool AsymmetricFence::heavy() noexcept { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0; }

}  // namespace unisono::base
