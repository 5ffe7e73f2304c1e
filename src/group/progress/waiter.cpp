#include "group/progress/waiter.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/switches.h"
#include "base/log.h"
#include "base/printable.h"
#include "group/group_facts.h"
#include "group/progress/backoff.h"
#include "recorder/reader.h"
#include "recorder/whereabouts.h"

namespace unisono::group {

// Ranks that wait for each other's messages, which may be on several hosts. A rank reads the waits of the ranks of its host in their records. Where
// they lead to another host, it sends the chain of them to the rank there, which does the same and sends it on. A chain that comes back to the rank
// that began it is a circle: no wait of it can end. Example, with ranks 0 and 1 on one host, 2 and 3 on another, and each sends to the next one:
//
//   rank 0 reads 0→1, 1→2 and sends that to rank 2; rank 2 adds 2→3, 3→0 and sends all to rank 0, which knows the circle.
//   rank 1 reads 1→2 and sends that to rank 2; rank 2 adds 2→3, 3→0 and sends all to rank 1, because rank 0 is on the host of rank 1, which adds 0→1.

namespace {

using recorder::MessageWait;
using Chain = std::vector<MessageWait>;

constexpr std::size_t longest_call = 300;
constexpr std::size_t longest_on_one_host = 1024;

/// Per wait: rank, rank waited for, whether it sends, and the call, which is empty for waits that no text tells.
std::string encode(const Chain& chain) {
  base::ByteWriter bytes;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const std::string_view call = i < recorder::most_told_of_circle ? std::string_view(chain[i].call).substr(0, longest_call) : std::string_view();
    bytes.put(chain[i].rank).put(chain[i].waited_for).put(static_cast<std::uint8_t>(chain[i].sends)).text(call);
  }
  return bytes.take();
}

/// Returns an empty chain where the bytes are none.
Chain decode(std::string_view bytes) {
  base::ByteReader reader(bytes);
  Chain chain;
  while (reader.ok() && !reader.complete()) {
    MessageWait wait{.rank = reader.get<int>(), .waited_for = reader.get<int>(), .sends = reader.get<std::uint8_t>() != 0};
    wait.call = base::printable(reader.text());
    chain.push_back(std::move(wait));
  }
  return reader.ok() && chain.size() <= coordination::most_ranks_that_tell ? chain : Chain();
}

/// Returns the rank in the group; nothing where it is no member.
std::optional<int> member_of(const GroupErrors& group, int world_rank) {
  const auto& world = group.facts().global_ranks();
  const auto found = std::ranges::find(world, world_rank);
  return found == world.end() ? std::nullopt : std::optional(static_cast<int>(found - world.begin()));
}

/// The waits of this host's ranks, each read once. An object lives for one look.
using Waits = std::map<int, std::optional<MessageWait>>;

std::optional<MessageWait> read_wait(const GroupErrors& group, int member) {
  const auto process = group.coordination().detector().process_of(member);
  const auto reader = member == group.facts().rank() ? std::make_unique<recorder::RecordReader>(group.recorder().memory())
                      : process                      ? recorder::find_record(*process)
                                                     : nullptr;
  if (!reader) return std::nullopt;
  auto wait = recorder::message_wait_of(group.facts().in_world(member), reader->read());
  if (wait) wait->waited_for = group.facts().from_record(wait->waited_for);
  return wait;
}

/// Returns the wait of a member that is on this host.
const std::optional<MessageWait>& wait_of(const GroupErrors& group, int member, Waits& waits) {
  const auto [found, is_new] = waits.try_emplace(member);
  if (is_new) found->second = read_wait(group, member);
  return found->second;
}

bool is_same(const MessageWait& left, const MessageWait& right) {
  return left.rank == right.rank && left.waited_for == right.waited_for && left.call.substr(0, longest_call) == right.call.substr(0, longest_call);
}

enum class End { none, circle, elsewhere };

/// Adds the waits of the ranks of this host to the chain. Says where it ends: with a rank that waits for no message, with the rank it began with, or
/// at a rank of another host.
End follow(const GroupErrors& group, Chain& chain, Waits& waits) {
  for (;;) {
    const int next = chain.back().waited_for;
    if (next == chain.front().rank) return chain.size() < 2 ? End::none : End::circle;
    const auto member = member_of(group, next);
    if (!member || chain.size() == longest_on_one_host || std::ranges::find(chain, next, &MessageWait::rank) != chain.end()) return End::none;
    if (!group.coordination().topology().here(*member)) return End::elsewhere;
    const auto& wait = wait_of(group, *member, waits);
    if (!wait) return End::none;
    chain.push_back(*wait);
  }
}

/// Follows the chain, and sends it on if it leads to another host: to the rank it began with, if that is on the host to which it leads. A chain that
/// began with a rank outside this group ends here.
void pass_on(GroupErrors& group, Chain chain, Waits& waits) {
  coordination::Coordination& coordination = group.coordination();
  const auto& topology = coordination.topology();
  const End end = follow(group, chain, waits);
  if (end == End::none) return;
  const auto first = member_of(group, chain.front().rank), next = member_of(group, chain.back().waited_for);
  if (end == End::circle && first == group.facts().rank()) return coordination.whereabouts()->chains().keep_circle(encode(chain));
  if (!next) return;
  const int to = first && topology.host_of(*first) == topology.host_of(*next) ? *first : *next;
  if (topology.here(to)) return;
  coordination.notices().tell(to, coordination::Notices::of_kind(coordination::NoticeKind::wait_chain).raw(encode(chain)).take());
}

/// Sends on the chains that have come to this rank, and its own one from time to time, while it waits in a call for so long. Makes system calls.
void follow_waits(GroupErrors& group, std::chrono::nanoseconds elapsed, std::chrono::nanoseconds timeout) {
  coordination::Coordination& coordination = group.coordination();
  if (coordination.is_one_host() || group.facts().size() > coordination::most_ranks_that_tell) return;
  coordination::WaitChains& chains = coordination.whereabouts()->chains();
  const bool is_due = chains.is_due(elapsed, timeout);
  const auto come = chains.fetch();
  if (!is_due && come.empty()) return;
  Waits waits;
  const std::optional<MessageWait> own = wait_of(group, group.facts().rank(), waits);
  if (!own) return;
  if (is_due) pass_on(group, {*own}, waits);
  for (const std::string& bytes : come) {
    Chain chain = decode(bytes);
    if (chain.empty() || (chain.front().rank == own->rank && !is_same(chain.front(), *own))) continue;
    pass_on(group, std::move(chain), waits);
  }
}

/// Returns the circle of messages in which this rank waits, as a sentence with advice, as far as it is known; empty: there is none. Makes system
/// calls.
std::string circle_of(GroupErrors& group) {
  Waits waits;
  const std::optional<MessageWait> own = wait_of(group, group.facts().rank(), waits);
  if (!own) return {};
  Chain chain{*own};
  if (follow(group, chain, waits) == End::circle) return recorder::circle_text(chain);
  if (group.coordination().is_one_host()) return {};
  chain = decode(group.coordination().whereabouts()->chains().circle());
  return !chain.empty() && is_same(chain.front(), *own) ? recorder::circle_text(chain) : std::string();
}

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

/// Returns the time between two looks at the other ranks. A look is system calls for each rank of the host: where many of them wait, they would be at
/// it all the time, and keep the processors from those that they wait for.
std::chrono::milliseconds look_period_among(std::size_t ranks_of_host) {
  constexpr std::size_t few = 8;
  constexpr std::chrono::milliseconds of_each_more{5};
  return look_period + static_cast<int>(std::max(ranks_of_host, few) - few) * of_each_more;
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
  if (!warned && deadline.elapsed() > warn_after && operation != recorder::controller_label) {
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
  const auto period = look_period_among(coordination.topology().members.size());
  auto next_look = base::Clock::now() + period;
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
    backoff.pause(again, std::min<std::chrono::nanoseconds>(task.wakes_waiter() ? period : unnotified_period, left),
                  [&](std::chrono::nanoseconds at_most) { return task.sleep(at_most); });
    if (task.advance()) return;
    std::optional<Failure> failure = coordination.is_disputed() ? std::nullopt : coordination.failure();
    const bool late = deadline.passed();
    const auto now = base::Clock::now();
    if (!failure && (late || now >= next_look)) {
      next_look = now + period;
      failure = check.look(group_, task);
    }
    if (!failure) continue;
    if (task.advance()) return;  // the part of a peer that did it before it went still counts
    std::rethrow_exception(group_.fail(*failure, operation_, sequence_));
  }
}

}  // namespace unisono::group
