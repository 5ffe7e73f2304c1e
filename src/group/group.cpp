#include "group/group.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error_place.h"
#include "base/log.h"

namespace unisono::group {
namespace {

GroupParts clamped(GroupParts parts) {
  parts.timeout = base::clamped(parts.timeout);
  return parts;
}

}  // namespace

Group::Group(GroupParts parts)
    : parts_(clamped(std::move(parts))),
      facts_(parts_),
      errors_(parts_, facts_, [this] { return std::shared_ptr<GroupErrors>(shared_from_this(), &errors_); }),
      devices_(facts_, core()),
      calls_(parts_, facts_, errors_),
      collectives_(calls_, devices_),
      messages_(calls_, devices_),
      seals_(coordination(), core().executor().name()),
      exceptions_(std::uncaught_exceptions()) {}

Group::~Group() {
  // The ranks that still wait for this one learn that it will not come.
  using enum coordination::Leaving;
  if (!in_forked_child()) drop(std::uncaught_exceptions() > exceptions_ ? by_exception : let_go);
}

}  // namespace unisono::group

// The ends of a group: in order, with what is under way, and after a failure.

namespace unisono::group {
namespace {

using namespace std::chrono_literals;

// The time in which the peers' systems get what is still to be sent. After a failure that is no more than the news of it, which is on its way, and a
// caller waits for its error: over a network that is cut nothing arrives at all.
constexpr std::chrono::milliseconds longest_goodbye = 5s;
constexpr std::chrono::milliseconds goodbye_after_failure = 500ms;

}  // namespace

void Group::close(std::chrono::milliseconds at_most, coordination::Leaving how) {
  if (!errors_.close()) return;
  if (!coordination().failure()) drain(at_most);
  end_pending();
  core().leave(how, std::min(at_most, longest_goodbye));
}

void Group::drain(std::chrono::milliseconds at_most) {
  constexpr std::chrono::milliseconds silent = 200ms;  // what ends by itself is not worth a word
  const base::Deadline deadline(at_most);
  if (parts_.progress->drain(*calls_.lane(), base::Deadline(std::min(at_most, silent))) || at_most <= silent) return;
  std::string text;
  parts_.progress->visit(*calls_.lane(), [&](const Ended& pending) {
    constexpr std::size_t longest = 1000;
    if (text.size() > longest) return;
    const std::vector<int> ranks = pending.task.waiting_for();
    text += fmt::format("{}{} #{}", text.empty() ? "" : "; ", pending.operation, pending.sequence);
    if (const auto place = base::place_text(pending.where); !place.empty()) text += fmt::format(" ({})", place);
    text += pending.task.any_will_do() ? ", for a message of any rank" : ranks.empty() ? "" : ", for " + coordination().name(ranks.front());
  });
  if (!text.empty()) {
    base::warn(
        fmt::format("the end of group {} waits at most {:.3g} s for what is under way: {} (Work::cancel takes back a receive that nobody wants)",
                    name(), std::chrono::duration<double>(at_most).count(), text));
  }
  parts_.progress->drain(*calls_.lane(), deadline);
}

void Group::drop(coordination::Leaving how) {
  if (!errors_.close()) return;
  end_pending();
  core().leave(how, goodbye_after_failure);
}

// Nobody advances the operations of a closed group, and nobody listens to its failures: a Work that is kept beyond it says so at once.
void Group::end_pending() {
  errors_.stop_reports();
  const auto failure = coordination().failure();
  parts_.progress->end(*calls_.lane(), [&](const Ended& ended) {
    if (failure) return errors_.error_of(*failure, ended.operation, ended.sequence);
    const std::vector<int> waiting = ended.task.waiting_for();
    return errors_.error_of(
        {.kind = Failure::Kind::timeout,
         .cause = {},
         .culprit = waiting.empty() || ended.task.any_will_do() ? -1 : waiting.front(),
         .missing = waiting,
         .message = std::string(ended.operation) + " #" + std::to_string(ended.sequence) + " was not done when its group was closed"},
        ended.operation, ended.sequence);
  });
}

Seals::Seals(const coordination::Coordination& coordination, std::string_view engine) {
  if (coordination.is_one_host()) return;
  const transport::Link::Protection& link = coordination.link()->protection();
  if (link.is_local || (link.is_encrypted && engine == "tcp")) return;
  need_ = link.secret.empty() ? Need::impossible : Need::codes;
  secret_ = link.secret;
  group_ = coordination.key();
}

std::uint64_t Seals::next() {
  const std::lock_guard lock(mutex_);
  return ++own_;
}

bool Seals::accept(int from, std::int64_t way, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& last = last_[{from, way}];
  if (number <= last) return false;
  last = number;
  return true;
}

}  // namespace unisono::group
