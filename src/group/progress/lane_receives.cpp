#include "group/progress/lane.h"

#include <utility>

#include "base/error_place.h"
#include "group/group_facts.h"
#include "group/progress/waiter.h"
#include "unisono/failure.h"

namespace unisono::group {

// A large message is copied later, while the caller waits: a caller that copied one for each receive of a window would keep its own sends from its
// peer meanwhile.
void LaneReceives::post(PendingReceive& receive, GroupErrors& group, MessageMatcher& messages, const MessageCall& call, Remains& remains) {
  group_ = &group;
  messages_ = &messages;
  if (!lane_.is_over) receive.task.post(messages, call);  // where there is no memory for it, nobody knows the receive yet
  receive.previous = last_;
  receive.next = nullptr;
  (last_ != nullptr ? last_->next : first_) = &receive;
  last_ = &receive;
  ++count_;
  if (lane_.is_over) {
    finish(receive, group.error_when_over(receive.about().operation, call.sequence), remains);
    return;
  }
  if (!receive.task.has_message()) advance(receive, remains);
  advance_given(remains, LargeCopies::later);
  if (first_ != nullptr && !kept_group_) kept_group_ = group.share();
}

bool LaneReceives::step(Remains& remains) {
  messages_->pump();
  bool any_done = advance_given(remains, LargeCopies::now);
  for (PendingReceive* receive = first_; receive != nullptr && moving_count_ > 0 && !(any_done && lane_.is_wanted());) {
    PendingReceive& now = *std::exchange(receive, receive->next);
    if (now.is_moving) any_done = advance(now, remains) || any_done;
  }
  return any_done;
}

// The matcher goes with the group, which the last receive may be the last to hold.
bool LaneReceives::advance_given(Remains& remains, LargeCopies large) {
  bool any_done = false;
  while (first_ != nullptr) {
    PostedReceive* const given = messages_->next_given();
    if (given == nullptr) break;
    PendingReceive& receive = PendingReceive::of(*given);
    if (large == LargeCopies::later && receive.task.has_large_copy()) {
      keep_moving(receive);
      continue;
    }
    any_done = advance(receive, remains) || any_done;
    if (any_done && lane_.is_wanted()) break;
  }
  return any_done;
}

void LaneReceives::keep_moving(PendingReceive& receive) {
  if (!std::exchange(receive.is_moving, true)) ++moving_count_;
}

bool LaneReceives::advance(PendingReceive& receive, Remains& remains) {
  std::exception_ptr error;
  try {
    if (!receive.task.advance()) {
      if (receive.task.has_message()) keep_moving(receive);
      lane_.wakes_waiter = lane_.wakes_waiter && receive.task.wakes_waiter();
      return false;
    }
  } catch (...) {
    auto thrown = group_->of_thrown(receive.about().operation, receive.task.sequence(), GroupErrors::Known::to_the_peer);
    lane_.is_over = lane_.is_over || thrown.ends_group;
    error = std::move(thrown.error);
  }
  finish(receive, std::move(error), remains);
  return true;
}

std::optional<bool> LaneReceives::cancel(const detail::WorkState& state, Remains& remains) {
  for (PendingReceive* receive = first_; receive != nullptr; receive = receive->next) {
    if (receive != &state) continue;
    if (!receive->task.cancel()) return false;
    finish(*receive, nullptr, remains);
    return true;
  }
  return std::nullopt;
}

std::optional<Failure> LaneReceives::look() {
  for (PendingReceive* receive = first_; receive != nullptr; receive = receive->next) {
    const auto& about = receive->about();
    const WaitCheck check{about.operation, receive->task.sequence(), receive->deadline(), about.record, receive->warned};
    if (const auto failure = check.look(*group_, receive->task)) return failure;
  }
  return std::nullopt;
}

Ended LaneReceives::ended(const PendingReceive& receive) const {
  return {*group_, receive.about().operation, receive.task.sequence(), receive.task, receive.about().where};
}

void LaneReceives::end(const ErrorOf& error_of, Remains& remains) {
  while (first_ != nullptr) {
    PendingReceive& receive = *first_;
    finish(receive, error_of(ended(receive)), remains);
  }
}

void LaneReceives::visit(const std::function<void(const Ended&)>& look) const {
  for (const PendingReceive* receive = first_; receive != nullptr; receive = receive->next) look(ended(*receive));
}

void LaneReceives::finish(PendingReceive& receive, std::exception_ptr error, Remains& remains) {
  group_->recorder().end(receive.about().record, !error);
  (receive.previous != nullptr ? receive.previous->next : first_) = receive.next;
  (receive.next != nullptr ? receive.next->previous : last_) = receive.previous;
  --count_;
  if (receive.is_moving) --moving_count_;
  const Arrival arrival = receive.task.arrival();
  receive.task.withdraw();  // before the caller, who has its memory back with the end
  remains.any_done = true;
  if (first_ == nullptr && kept_group_) remains.keep(std::exchange(kept_group_, nullptr));
  if (!error && receive.end_well(arrival)) return;
  error = base::placed(std::move(error), receive.about().where);
  settle(receive, error, error ? Arrival{} : arrival, false, deferred_, remains);
  receive.let_go();
}

}  // namespace unisono::group
