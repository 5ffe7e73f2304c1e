#include "base/affinity.h"

#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <memory>

namespace unisono::base {

std::vector<int> affinity_of(int pid) {
  std::vector<int> processors;
  // The kernel refuses a set that is smaller than its own, so the set grows until the call succeeds.
  constexpr std::size_t first_size = 1024, last_size = std::size_t{1} << 20;  // numbers of processors
  for (std::size_t size = first_size; size <= last_size; size *= 4) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(size), [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    if (::sched_getaffinity(pid, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    for (std::size_t processor = 0; processor < size; ++processor) {
      if (CPU_ISSET_S(processor, bytes, set.get())) processors.push_back(static_cast<int>(processor));
    }
    break;
  }
  return processors;
}

}  // namespace unisono::base
