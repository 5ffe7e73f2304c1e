#include <random>

#include "unisono/parameters.h"

namespace unisono {

std::uint32_t sync_random_seed(const ProcessGroup& group, const CallOptions& options) {
  std::uint32_t seed = group.rank() == 0 ? std::random_device()() & 0x7fffffffU : 0;
  const TensorView view = detail::view_of_value(seed);
  detail::run(detail::labelled(detail::rooted({Operation::broadcast, view, view}, 0), "sync_random_seed"), group, options);
  return seed;
}

}  // namespace unisono
