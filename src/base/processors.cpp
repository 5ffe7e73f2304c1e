#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/control_groups.h"

namespace unisono::base {
void Processors::add(const Processors& others) {
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] |= others.mask[i];
  quota = std::min(quota, others.quota);
}

int Processors::count() const {
  int bits = 0;
  for (const std::uint64_t word : mask) bits += std::popcount(word);
  return std::max(1, std::min(bits, quota));
}

Processors processors_of(int pid) {
  Processors found;
  cpu_set_t set;
  CPU_ZERO(&set);
  static_assert(sizeof set.__bits == sizeof found.mask);
  if (::sched_getaffinity(pid, sizeof set, &set) == 0) std::memcpy(found.mask.data(), set.__bits, sizeof found.mask);
  return found;
}

Processors own_processors() {
  Processors own = processors_of(0);
  if (const auto limit = ControlGroups().processors()) own.quota = static_cast<int>(std::ceil(*limit));
  return own;
}

int allowed_processors() { return own_processors().count(); }

}  // namespace unisono::base
