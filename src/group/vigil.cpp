#include "group/vigil.h"

#include <fmt/format.h>

#include "ground/log.h"
#include "group/group.h"

namespace unisono::group {

std::optional<Failure> Vigil::look(Group& group, const Task& task) const {
  constexpr auto warn_after = std::chrono::seconds(30);
  const std::vector<int> waiting = task.waiting_for();
  if (auto failure = group.backend().look_for_failures(waiting, task.any_will_do())) return failure;
  if (deadline.passed()) {
    return Failure{.kind = Failure::Kind::timeout,
                   .cause = {},
                   .culprit = waiting.empty() || task.any_will_do() ? -1 : waiting.front(),
                   .missing = waiting,
                   .message = fmt::format("{} #{} was not done within {} ms; waiting for {}", operation, sequence, deadline.timeout().count(),
                                          waiting.empty() ? std::string("the device") : fmt::format("rank {}", fmt::join(waiting, ", ")))};
  }
  if (!warned && deadline.elapsed() > warn_after) {
    warned = true;
    ground::warn(fmt::format("{} #{} on group {} has been waiting for {} for {} s", operation, sequence, group.name(),
                             waiting.empty() ? std::string("the device") : fmt::format("rank {}", fmt::join(waiting, ", ")), warn_after.count()));
  }
  return std::nullopt;
}

}  // namespace unisono::group
