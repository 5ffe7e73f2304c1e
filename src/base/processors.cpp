#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <string>

namespace unisono::base {
namespace {

// Returns the processors granted by the control group's quota, rounded up; 0: there is no limit, or it cannot be read.
int quota() {
  std::ifstream unified("/sys/fs/cgroup/cpu.max");
  std::string limit;
  double period = 0;
  if (unified >> limit >> period && limit != "max" && period > 0) return static_cast<int>(std::stod(limit) / period + 0.999);
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota_us = 0;
  if (quota_file >> quota_us && period_file >> period && quota_us > 0 && period > 0) return static_cast<int>(quota_us / period + 0.999);
  return 0;
}

}  // namespace

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
  if (const int limit = quota(); limit > 0) own.quota = limit;
  return own;
}

int allowed_processors() { return own_processors().count(); }

}  // namespace unisono::base
