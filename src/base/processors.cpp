#include "base/processors.h"

#include <sched.h>

#include <algorithm>
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

int allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int processors = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const int limit = quota(); limit > 0) processors = std::min(processors, limit);
  return std::max(processors, 1);
}

}  // namespace unisono::base
