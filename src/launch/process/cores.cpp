#include "launch/process/cores.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <tuple>

#include <fmt/format.h>

namespace unisono::launcher {
namespace {

std::string folder_of(const std::string& folder, int processor) { return fmt::format("{}/cpu{}", folder, processor); }

/// Returns the number with which a file begins: 4 of "4-7,12".
int first_number(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int number = otherwise;
  return file >> number ? number : otherwise;
}

}  // namespace

std::vector<Core> cores_of(const std::vector<int>& processors, const std::string& folder) {
  std::vector<Core> cores;
  for (const int processor : processors) {
    const std::string about = folder_of(folder, processor) + "/topology/";
    const int number = first_number(about + "thread_siblings_list", processor);
    const auto known = std::ranges::find(cores, number, &Core::number);
    if (known != cores.end()) known->processors.push_back(processor);
    else cores.push_back({.package = first_number(about + "physical_package_id", 0), .number = number, .processors = {processor}});
  }
  std::ranges::sort(cores, {}, [](const Core& core) { return std::tuple(core.package, core.number); });
  return cores;
}

bool HeldCores::take(const Core& core) {
  base::FileDescriptor lock(::open(folder_of(folder_, core.number).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) error_ = errno;
    return false;
  }
  locks_.push_back(std::move(lock));
  return true;
}

}  // namespace unisono::launcher
