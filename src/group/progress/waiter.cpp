#include "group/progress/waiter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/deadline.h"
#include "base/interruption.h"
#include "base/log.h"
#include "group/group_errors.h"
#include "group/messages/message_circle.h"
#include "group/progress/backoff.h"
#include "recorder/reader.h"
#include "recorder/whereabouts.h"

namespace unisono::group {

namespace {

std::string call_name(std::string_view operation, std::uint64_t sequence) {
  return sequence == 0 ? std::string(operation) : fmt::format("{} #{}", operation, sequence);
}

std::string ranks_text(const coordination::Coordination& coordination, const std::vector<int>& ranks) {
  if (ranks.empty()) return "the device";
  const bool are_of_world = std::ranges::all_of(ranks, [&](int r) { return coordination.global_ranks()[static_cast<std::size_t>(r)] == r; });
  if (are_of_world) return fmt::format("rank {}", fmt::join(ranks, ", "));
  std::string text;
  for (const int r : ranks) text += (text.empty() ? "" : ", ") + coordination.name(r);
  return text;
}

/// Says what the first of these ranks do instead, as far as that is known: most often they wait in another call. Makes system calls.
std::string doings(const coordination::Coordination& coordination, const std::vector<int>& ranks) {
  constexpr std::size_t most = 3;  // a failure's text is short
  std::string text;
  std::size_t told = 0;
  for (const int r : ranks) {
    if (told == most) break;
    const auto process = coordination.detector().process_of(r);
    const std::string where = process ? recorder::whereabouts_of(*process) : coordination.whereabouts_of(r);
    if (where.empty()) continue;
    text += fmt::format("; {} {}", coordination.name(r), where);
    ++told;
  }
  return text;
}

/// Returns the failure of a call whose deadline has passed. Ranks that wait for each other are told as such: none of them is to blame alone.
Failure deadline_passed(GroupErrors& group, const Task& task, const WaitCheck& wait, std::vector<int> waiting) {
  const std::string circle = waiting.empty() || task.any_will_do() ? std::string() : circle_of(group);
  const std::string remark = task.remark();
  std::string text = fmt::format("{} was not done within {} ms", call_name(wait.operation, wait.sequence), wait.deadline.timeout().count());
  if (!circle.empty() && remark.empty()) text += "; " + circle;
  else
    text += fmt::format("; waiting for {}", ranks_text(group.coordination(), waiting)) + (remark.empty() ? "" : "; " + remark) +
            doings(group.coordination(), waiting);
  const bool is_nobodys = waiting.empty() || task.any_will_do() || (!circle.empty() && remark.empty());
  return Failure{.kind = Failure::Kind::timeout,
                 .cause = {},
                 .culprit = is_nobodys ? -1 : waiting.front(),
                 .missing = std::move(waiting),
                 .message = std::move(text),
                 .reporter = group.facts().rank()};
}

}  // namespace

std::optional<Failure> WaitCheck::look(GroupErrors& group, const Task& task) const {
  constexpr auto warn_after = std::chrono::seconds(30);
  constexpr auto tell_after = std::chrono::milliseconds(500);
  if (group.coordination().is_disputed()) return std::nullopt;
  std::vector<int> waiting = task.waiting_for();
  group.record_wait(record, waiting);
  const bool was_sound = !group.coordination().failure();
  const auto patience = coordination::patience_of_call(deadline.elapsed(), deadline.timeout());
  auto failure = group.coordination().look_for_failures(waiting, task.any_will_do(), patience);
  while (failure) {
    // A rank that did its part of the call and left, after it was counted among these, is not waited for any more.
    std::vector<int> now = task.waiting_for();
    if (now == waiting) {
      // It may have sent something else before it left.
      if (const std::string remark = was_sound ? task.remark() : std::string(); !remark.empty()) failure->message += "; " + remark;
      return failure;
    }
    waiting = std::move(now);
    failure = group.coordination().look_for_failures(waiting, task.any_will_do(), patience);
  }
  if (deadline.elapsed() > tell_after) {
    group.coordination().tell_whereabouts(waiting,
                                          [&] { return recorder::whereabouts_of(recorder::RecordReader(group.recorder().memory()).read()); });
  }
  follow_waits(group, deadline.elapsed(), deadline.timeout());
  if (deadline.passed()) return deadline_passed(group, task, *this, std::move(waiting));
  if (!warned && deadline.elapsed() > warn_after) {
    warned = true;
    const std::string remark = task.remark();
    base::warn(fmt::format("{} on group {} has been waiting for {} for {} s{}{}{}", call_name(operation, sequence), group.facts().name(),
                           ranks_text(group.coordination(), waiting), warn_after.count(), remark.empty() ? "" : "; ", remark,
                           doings(group.coordination(), waiting)));
  }
  return std::nullopt;
}

void BlockingWaiter::wait(Task& task) {
  coordination::Coordination& coordination = group_.coordination();
  Backoff backoff(coordination.notifier(), coordination.is_crowded(), coordination.link() != nullptr, coordination.neighbours());
  // Spinning takes far less than a millisecond: there is nothing to look at meanwhile.
  const auto again = [&] { return task.advance(); };
  do {
    backoff.pause(again, std::chrono::nanoseconds(0));
    if (task.advance()) return;
  } while (backoff.is_spinning());

  // A call that waits for several tasks has one clock for all of them.
  if (!deadline_) deadline_.emplace(timeout_);
  const base::Deadline& deadline = *deadline_;
  auto next_look = base::Clock::now() + look_period;
  bool warned = false;
  base::InterruptionLook look_for_interruption;
  const WaitCheck check{operation_, sequence_, deadline, record_, warned};
  group_.record_wait(record_, task.waiting_for());
  for (;;) {
    try {
      look_for_interruption();
    } catch (...) {  // the task ends half done, with its caller's memory
      group_.abort_after(std::current_exception());
      throw;
    }
    // Ranks that are known to differ have their decision soon, also behind the deadline.
    const std::chrono::nanoseconds left = coordination.is_disputed() ? look_period : std::chrono::nanoseconds(deadline.left());
    backoff.pause(again, std::min<std::chrono::nanoseconds>(task.wakes_waiter() ? look_period : unnotified_period, left),
                  [&](std::chrono::nanoseconds at_most) { return task.sleep(at_most); });
    if (task.advance()) return;
    std::optional<Failure> failure = coordination.failure();
    const bool late = deadline.passed();
    const auto now = base::Clock::now();
    if (!failure && (late || now >= next_look)) {
      next_look = now + look_period;
      failure = check.look(group_, task);
    }
    if (!failure) continue;
    if (task.advance()) return;  // the part of a peer that did it before it went still counts
    std::rethrow_exception(group_.fail(*failure, operation_, sequence_));
  }
}

}  // namespace unisono::group
