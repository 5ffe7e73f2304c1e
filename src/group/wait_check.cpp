#include "group/wait_check.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "group/group.h"
#include "recorder/reader.h"
#include "recorder/whereabouts.h"

namespace unisono::group {

namespace {

std::string call_name(std::string_view operation, std::uint64_t sequence) {
  return sequence == 0 ? std::string(operation) : fmt::format("{} #{}", operation, sequence);
}

std::string ranks_text(const std::vector<int>& ranks) {
  return ranks.empty() ? std::string("the device") : fmt::format("rank {}", fmt::join(ranks, ", "));
}

/// Says what the first of these ranks do instead, as far as that is known: most often they wait in another call. Makes system calls.
std::string doings(const coordination::Coordination& coordination, const std::vector<int>& ranks) {
  constexpr std::size_t most = 3;  // a failure's text is short
  std::string text;
  std::size_t told = 0;
  for (const int r : ranks) {
    if (told == most) break;
    const auto process = coordination.process_of(r);
    const std::string where = process ? recorder::whereabouts_of(*process) : coordination.whereabouts_of(r);
    if (where.empty()) continue;
    text += fmt::format("; rank {} {}", r, where);
    ++told;
  }
  return text;
}

}  // namespace

std::optional<Failure> WaitCheck::look(Group& group, const Task& task) const {
  constexpr auto warn_after = std::chrono::seconds(30);
  constexpr auto tell_after = std::chrono::milliseconds(500);
  std::vector<int> waiting = task.waiting_for();
  group.record_wait(record, waiting);
  const auto patience = coordination::patience_of_call(deadline.elapsed(), deadline.timeout());
  auto failure = group.coordination().look_for_failures(waiting, task.any_will_do(), patience);
  while (failure) {
    // A rank that did its part of the call and left, after it was counted among these, is not waited for any more.
    std::vector<int> now = task.waiting_for();
    if (now == waiting) return failure;
    waiting = std::move(now);
    failure = group.coordination().look_for_failures(waiting, task.any_will_do(), patience);
  }
  if (deadline.elapsed() > tell_after) {
    group.coordination().tell_whereabouts(waiting,
                                          [&] { return recorder::whereabouts_of(recorder::RecordReader(group.recorder().memory()).read()); });
  }
  if (deadline.passed()) {
    return Failure{.kind = Failure::Kind::timeout,
                   .cause = {},
                   .culprit = waiting.empty() || task.any_will_do() ? -1 : waiting.front(),
                   .missing = waiting,
                   .message = fmt::format("{} was not done within {} ms; waiting for {}{}", call_name(operation, sequence),
                                          deadline.timeout().count(), ranks_text(waiting), doings(group.coordination(), waiting))};
  }
  if (!warned && deadline.elapsed() > warn_after) {
    warned = true;
    base::warn(fmt::format("{} on group {} has been waiting for {} for {} s{}", call_name(operation, sequence), group.name(), ranks_text(waiting),
                           warn_after.count(), doings(group.coordination(), waiting)));
  }
  return std::nullopt;
}

}  // namespace unisono::group
