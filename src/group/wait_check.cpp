#include "group/wait_check.h"

#include <fmt/format.h>

#include "base/log.h"
#include "group/group.h"

namespace unisono::group {

namespace {

std::string call_name(std::string_view operation, std::uint64_t sequence) {
  return sequence == 0 ? std::string(operation) : fmt::format("{} #{}", operation, sequence);
}

}  // namespace

std::optional<Failure> WaitCheck::look(Group& group, const Task& task) const {
  constexpr auto warn_after = std::chrono::seconds(30);
  const std::vector<int> waiting = task.waiting_for();
  group.record_wait(record, waiting);
  if (auto failure = group.coordination().look_for_failures(waiting, task.any_will_do())) return failure;
  if (deadline.passed()) {
    return Failure{.kind = Failure::Kind::timeout,
                   .cause = {},
                   .culprit = waiting.empty() || task.any_will_do() ? -1 : waiting.front(),
                   .missing = waiting,
                   .message = fmt::format("{} was not done within {} ms; waiting for {}", call_name(operation, sequence), deadline.timeout().count(),
                                          waiting.empty() ? std::string("the device") : fmt::format("rank {}", fmt::join(waiting, ", ")))};
  }
  if (!warned && deadline.elapsed() > warn_after) {
    warned = true;
    base::warn(fmt::format("{} on group {} has been waiting for {} for {} s", call_name(operation, sequence), group.name(),
                           waiting.empty() ? std::string("the device") : fmt::format("rank {}", fmt::join(waiting, ", ")), warn_after.count()));
  }
  return std::nullopt;
}

}  // namespace unisono::group
