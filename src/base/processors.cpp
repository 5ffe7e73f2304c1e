#include "base/processors.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/affinity.h"

namespace unisono::base {
namespace {

std::string text_of_group_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Finds a name in a list, such as "memory" in "cpu,memory".
bool lists_controller(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const auto comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(comma == std::string_view::npos ? controllers.size() : comma + 1);
  }
  return false;
}

void add_with_those_above(std::vector<std::string>& folders, const std::string& root, std::string path) {
  for (; path.size() > 1; path.resize(path.rfind('/'))) folders.push_back(root + path);
  folders.push_back(root);
}

template <class T>
void lower(std::optional<T>& least, T limit) {
  least = std::min(least.value_or(limit), limit);
}

}  // namespace

ControlGroups::ControlGroups() : ControlGroups(text_of_group_file("/proc/self/cgroup"), "/sys/fs/cgroup") {}

// Lines are "4:memory:/path" in version 1, with a number for each hierarchy, and "0::/path" in version 2.
std::vector<std::string> ControlGroups::folders(std::string_view controller) const {
  std::vector<std::string> folders;
  std::istringstream lines(own_);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      for (const std::string& root : {mount_, mount_ + "/unified"}) add_with_those_above(folders, root, path);
    } else if (lists_controller(controllers, controller)) {
      add_with_those_above(folders, mount_ + "/" + std::string(controller), path);
    }
  }
  return folders;
}

std::optional<double> ControlGroups::processors() const {
  std::optional<double> least;
  for (const std::string& folder : folders("cpu")) {
    double quota = 0, period = 0;
    std::istringstream unified(text_of_group_file(folder + "/cpu.max"));  // "150000 100000", or "max 100000"
    if (!(unified >> quota >> period)) {
      std::istringstream(text_of_group_file(folder + "/cpu.cfs_quota_us")) >> quota;  // -1: none
      std::istringstream(text_of_group_file(folder + "/cpu.cfs_period_us")) >> period;
    }
    if (quota > 0 && period > 0) lower(least, quota / period);
  }
  return least;
}

std::optional<std::uint64_t> ControlGroups::memory() const {
  constexpr std::uint64_t unlimited = std::uint64_t{1} << 62;  // version 1 says a number of this size where there is no limit
  std::optional<std::uint64_t> least;
  for (const std::string& folder : folders("memory")) {
    for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
      std::uint64_t limit = unlimited;
      if (std::istringstream(text_of_group_file(folder + name)) >> limit && limit < unlimited) lower(least, limit);
    }
  }
  return least;
}

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
  constexpr std::size_t bits = 64;
  Processors found;
  for (const int processor : affinity_of(pid)) {
    const auto place = static_cast<std::size_t>(processor);
    if (place < found.mask.size() * bits) found.mask[place / bits] |= std::uint64_t{1} << (place % bits);
  }
  return found;
}

Processors own_processors() {
  Processors own = processors_of(0);
  if (const auto limit = ControlGroups().processors()) own.quota = static_cast<int>(std::ceil(*limit));
  return own;
}

int allowed_processors() { return own_processors().count(); }

// The library asks the processor each time, which in a virtual machine is a matter of microseconds.

std::size_t second_level_cache() {
  constexpr long usual = 1L << 20;
  static const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return static_cast<std::size_t>(bytes > 0 ? bytes : usual);
}

std::size_t third_level_cache() {
  static const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return static_cast<std::size_t>(std::max(bytes, 0L));
}

}  // namespace unisono::base
