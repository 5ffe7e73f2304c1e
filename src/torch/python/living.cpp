#include "torch/python/living.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <ranges>
#include <vector>

namespace unisono::libtorch {
namespace {

// Groups may end after the destructors of static objects have run, so this is never destroyed.
std::mutex& mutex() {
  static auto& instance = *new std::mutex;
  return instance;
}
std::vector<std::weak_ptr<Membership>>& living() {
  static auto& instance = *new std::vector<std::weak_ptr<Membership>>;
  return instance;
}

}  // namespace

void note_living(const std::shared_ptr<Membership>& membership) {
  const std::lock_guard lock(mutex());
  std::erase_if(living(), [](const auto& other) { return other.expired(); });
  living().push_back(membership);
}

void end_all(const std::string& how) {
  std::vector<std::weak_ptr<Membership>> all;
  {
    const std::lock_guard lock(mutex());
    all = living();
  }
  for (const auto& each : std::views::reverse(all)) {
    const auto membership = each.lock();
    if (!membership) continue;
    try {
      if (how.empty()) membership->leave_at_exit();
      else membership->abandon(how);
    } catch (const std::exception& error) {  // the process ends in any case, and the other groups must still be told
      TORCH_WARN("unisono: a group could not be left: ", error.what());
    }
  }
}

}  // namespace unisono::libtorch
