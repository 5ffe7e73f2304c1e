// The receives of a lane: windows of small messages, so each costs as little as it can.

#include <algorithm>
#include <utility>

#include "base/error_place.h"
#include "group/group_errors.h"
#include "group/progress/lane.h"
#include "unisono/failure.h"

namespace unisono::group {

// A large message is copied later, while the caller waits: a caller that copied one for each receive of a window would keep its own sends from its
// peer meanwhile.
void Lane::post(PendingReceive& receive, GroupErrors& group, MessageMatcher& messages, const MessageCall& call, Remains& remains) {
  receiver_ = &group;
  messages_of_receiver_ = &messages;
  receive.previous = last_receive_;
  receive.next = nullptr;
  (last_receive_ != nullptr ? last_receive_->next : first_receive_) = &receive;
  last_receive_ = &receive;
  ++receive_count_;
  if (is_over_) {
    finish(receive, group.error_when_over(receive.about().operation, call.sequence), remains);
    return set_counts();
  }
  receive.post(messages, call);
  if (!receive.has_message()) advance(receive, remains);
  advance_given(remains, LargeCopies::later);
  if (first_receive_ != nullptr && !kept_receiver_) kept_receiver_ = group.share();
  set_counts();
  if (is_over_) end_rest(remains);
}

bool Lane::step_receives(Remains& remains) {
  messages_of_receiver_->pump();
  bool any_done = advance_given(remains, LargeCopies::now);
  for (PendingReceive* receive = first_receive_; receive != nullptr && moving_count_ > 0 && !(any_done && is_wanted());) {
    PendingReceive& now = *std::exchange(receive, receive->next);
    if (now.is_moving) any_done = advance(now, remains) || any_done;
  }
  return any_done;
}

// The matcher goes with the group, which the last receive may be the last to hold.
bool Lane::advance_given(Remains& remains, LargeCopies large) {
  bool any_done = false;
  while (first_receive_ != nullptr) {
    RecvTask* const given = messages_of_receiver_->next_given();
    if (given == nullptr) break;
    auto& receive = static_cast<PendingReceive&>(*given);
    if (large == LargeCopies::later && receive.has_large_copy()) {
      keep_moving(receive);
      continue;
    }
    any_done = advance(receive, remains) || any_done;
    if (any_done && is_wanted()) break;
  }
  return any_done;
}

void Lane::keep_moving(PendingReceive& receive) {
  if (!std::exchange(receive.is_moving, true)) ++moving_count_;
}

bool Lane::advance(PendingReceive& receive, Remains& remains) {
  std::exception_ptr error;
  try {
    if (!receive.RecvTask::advance()) {
      if (receive.has_message()) keep_moving(receive);
      wakes_waiter_ = wakes_waiter_ && receive.wakes_waiter();
      return false;
    }
  } catch (const Mismatch&) {
    error = receiver_->complete(std::current_exception(), receive.about().operation, receive.sequence());
  } catch (const GroupFailure& over) {
    is_over_ = true;
    error = receiver_->fail(over.failure(), receive.about().operation, receive.sequence());
  } catch (...) {
    is_over_ = true;
    error = std::current_exception();
    receiver_->abort_after(error);
  }
  finish(receive, std::move(error), remains);
  return true;
}

bool Lane::cancel(const detail::WorkState& state, Remains& remains) {
  for (PendingReceive* receive = first_receive_; receive != nullptr; receive = receive->next) {
    if (receive != &state) continue;
    if (!receive->RecvTask::cancel()) return false;
    finish(*receive, nullptr, remains);
    set_counts();
    return true;
  }
  const auto found = std::ranges::find_if(messages_, [&](const Pending& pending) { return &*pending.state == &state; });
  if (found == messages_.end() || !found->task->cancel()) return false;
  finish(*found, nullptr, remains);
  if (!found->is_urgent) --leisurely_count_;
  messages_.erase(found);
  set_counts();
  return true;
}

void Lane::finish(PendingReceive& receive, std::exception_ptr error, Remains& remains) {
  receiver_->recorder().end(receive.about().record, !error);
  (receive.previous != nullptr ? receive.previous->next : first_receive_) = receive.next;
  (receive.next != nullptr ? receive.next->previous : last_receive_) = receive.previous;
  --receive_count_;
  if (receive.is_moving) --moving_count_;
  const Arrival arrival = receive.RecvTask::arrival();
  receive.withdraw();  // before the caller, who has its memory back with the end
  remains.any_done = true;
  if (first_receive_ == nullptr && kept_receiver_) remains.keep(std::exchange(kept_receiver_, nullptr));
  if (!error && receive.end_well(arrival)) return;
  error = base::placed(std::move(error), receive.about().where);
  settle(receive, error, error ? Arrival{} : arrival, false, remains);
  receive.let_go();
}

}  // namespace unisono::group
