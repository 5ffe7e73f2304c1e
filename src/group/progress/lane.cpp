#include "group/progress/lane.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error_place.h"
#include "group/devices/device_streams.h"
#include "group/group_facts.h"
#include "group/progress/pending.h"
#include "group/progress/waiter.h"

namespace unisono::group {

std::shared_ptr<DeviceEvent> Lane::last_on_device() {
  const std::lock_guard lock(device_mutex_);
  return last_on_device_;
}

void Lane::add(Kind kind, Pending pending, Remains& remains) {
  pending.collective = kind == Kind::collective;
  if (pending.collective && !collectives_.empty()) step_collectives(remains);
  if (state_.is_over) {
    finish(pending, pending.group->error_when_over(pending.operation, pending.sequence), remains);
    return end_rest(remains);
  }
  // A message leaves alone what is pending beside it: a window of messages would be gone through for each of them.
  Progressed progressed = Progressed::no;
  if (!pending.collective) {
    pending.group->recorder().run(pending.record);
    progressed = advance(pending, remains);
  } else if (collectives_.empty()) progressed = advance_in_turn(pending, remains);
  if (progressed != Progressed::to_end) {
    List& list = progressed == Progressed::to_device ? on_device_ : pending.collective ? collectives_ : messages_;
    if (!pending.is_urgent) ++leisurely_count_;
    list.push_back(std::move(pending));
    state_.wakes_waiter = state_.wakes_waiter && list.back().task->wakes_waiter();
  }
  set_counts();
  if (state_.is_over) end_rest(remains);
}

// A question to the device costs more than an operation. So a row of calls asks once in a while, and for the middle one: an engine that carries out
// its operations one after the other knows then of all before. What is left when the row ends is left to the thread.
void Lane::end_passed(Remains& remains) {
  constexpr std::size_t row = 32;
  if (on_device_.empty() || on_device_.size() % row != 0) return;
  std::size_t before = on_device_.size() / 2;
  if (!step_one(on_device_, std::next(on_device_.begin(), static_cast<std::ptrdiff_t>(before)), remains)) return;
  while (before-- > 0 && !state_.is_over && step_one(on_device_, on_device_.begin(), remains)) {
  }
}

void Lane::add_watched(Pending pending, Remains& remains) {
  end_passed(remains);
  if (state_.is_over) {
    finish(pending, pending.group->error_when_over(pending.operation, pending.sequence), remains);
    return end_rest(remains);
  }
  if (pending.collective) {
    const std::lock_guard lock(device_mutex_);
    last_on_device_ = pending.state->completion;
  }
  if (!pending.is_urgent) ++leisurely_count_;
  on_device_.push_back(std::move(pending));
  set_counts();
  look(remains);
}

// Whoever asks without the lock has to take it to learn more. So has a caller who would pass by a lane that is over.
void Lane::set_counts() {
  const auto messages = static_cast<int>(messages_.size()) + receives_.count();
  const auto collectives = static_cast<int>(collectives_.size());
  const int over = state_.is_over ? 1 : 0;
  collective_count_.store(collectives + over, std::memory_order_release);
  message_count_.store(messages + over, std::memory_order_release);
  const int all = collectives + messages + static_cast<int>(on_device_.size());
  urgent_count_.store(all - receives_.count() - leisurely_count_, std::memory_order_relaxed);
  count_.store(all, std::memory_order_release);
}

bool Lane::poll(Remains& remains, Look look) {
  const bool any_done = step(remains);
  if (look == Look::yes && count() > 0) this->look(remains);
  return any_done;
}

bool Lane::step(Remains& remains) {
  state_.wakes_waiter = true;
  bool any_done = step_collectives(remains);
  if (!receives_.empty()) any_done = receives_.step(remains) || any_done;
  any_done = step_each(messages_, remains) || any_done;
  any_done = step_each(on_device_, remains) || any_done;
  set_counts();
  if (state_.is_over && count() > 0) end_rest(remains);
  return any_done;
}

bool Lane::step_collectives(Remains& remains) {
  bool any_done = false;
  while (!collectives_.empty() && !state_.is_over) {
    share_step();
    const Progressed progressed = advance_in_turn(collectives_.front(), remains);
    if (progressed == Progressed::no) {
      state_.wakes_waiter = state_.wakes_waiter && collectives_.front().task->wakes_waiter();
      break;
    }
    if (progressed == Progressed::to_device) on_device_.splice(on_device_.end(), collectives_, collectives_.begin());
    else collectives_.pop_front();
    any_done = true;
  }
  return any_done;
}

// Has small calls that wait behind the first one carried out in its step. An error that belongs to one of them comes before it: then each has a step
// of its own.
void Lane::share_step() {
  constexpr std::size_t most_followers = 64;
  if (collectives_.size() < 2 || !collectives_.front().task->shares_step() || deferred.is_set()) return;
  std::array<Task*, most_followers> followers{};
  std::size_t count = 0;
  for (auto it = std::next(collectives_.begin()); it != collectives_.end() && count < most_followers && it->task->shares_step(); ++it)
    followers[count++] = it->task.get();
  if (count > 0) collectives_.front().task->take_along(std::span(followers).first(count));
}

// A message may be about to follow the one that has ended, to the same rank.
bool Lane::step_each(List& list, Remains& remains) {
  bool any_done = false;
  const bool was_over = state_.is_over;
  for (auto it = list.begin(); it != list.end() && state_.is_over == was_over;) any_done = step_one(list, it++, remains) || any_done;
  return any_done;
}

bool Lane::step_one(List& list, List::iterator it, Remains& remains) {
  switch (advance(*it, remains)) {
    case Progressed::no: state_.wakes_waiter = state_.wakes_waiter && it->task->wakes_waiter(); return false;
    case Progressed::to_device: on_device_.splice(on_device_.end(), list, it); return true;
    default:
      if (!it->is_urgent) --leisurely_count_;
      list.erase(it);
      return true;
  }
}

Lane::Progressed Lane::advance_in_turn(Pending& pending, Remains& remains) {
  if (!std::exchange(pending.begun, true)) {
    pending.group->recorder().run(pending.record);
    if (auto error = deferred.take_for(pending.sequence)) {
      finish(pending, std::move(error), remains);
      return Progressed::to_end;
    }
  }
  return advance(pending, remains);
}

Lane::Progressed Lane::advance(Pending& pending, Remains& remains) {
  try {
    if (!pending.task->advance()) return Progressed::no;
    if (pending.task->completion() != nullptr) {
      leave_to_device(pending, remains);
      return Progressed::to_device;
    }
    finish(pending, nullptr, remains);
  } catch (...) {
    auto [error, ends_group] = pending.group->of_thrown(pending.operation, pending.sequence,
                                                        pending.collective ? GroupErrors::Known::to_all : GroupErrors::Known::to_the_peer);
    state_.is_over = state_.is_over || ends_group;
    finish(pending, std::move(error), remains);
  }
  return Progressed::to_end;
}

// The task is done and the device is not: a caller that waits for the operation goes on, and the device is watched.
void Lane::leave_to_device(Pending& pending, Remains& remains) {
  detail::WorkState& state = *pending.state;
  auto completion = pending.task->completion();
  auto watch = std::make_unique<DeviceWatch>(pending.group->coordination(), completion);
  if (pending.collective) {
    const std::lock_guard lock(device_mutex_);
    last_on_device_ = completion;
  }
  {
    const std::lock_guard lock(state.mutex);
    state.arrival = pending.task->arrival();
    state.completion = std::move(completion);
    state.set_done();
  }
  pending.task = std::move(watch);
  remains.any_done = true;
}

void Lane::finish(Pending& pending, std::exception_ptr error, Remains& remains) {
  buffered.fetch_sub(pending.buffered);
  pending.group->recorder().end(pending.record, !error);
  error = base::placed(std::move(error), pending.where);
  const Arrival arrival = error ? Arrival{} : pending.task->arrival();
  pending.task.reset();  // before the caller, who has its memory back with the end
  settle(*pending.state, error, arrival, pending.collective, deferred, remains);
  if (const auto& completion = pending.state->completion) {
    const std::lock_guard lock(device_mutex_);
    if (last_on_device_ == completion) last_on_device_.reset();
  }
  remains.keep(std::move(pending.group));
}

// Looks for deadlines that have passed, peers that are gone and groups that are over.
void Lane::look(Remains& remains) {
  const auto now = base::Clock::now();
  if (now < next_look_) return;
  next_look_ = now + look_period;
  if (any_group().coordination().is_disputed()) return;
  if (const auto known = any_group().coordination().failure()) return fail(*known, remains);
  const auto failure = look_at_all();
  if (!failure) return;
  // The acts of a peer before it went still count: the operation is finished if it can be, and the next look decides.
  if (step(remains) || count() == 0) return;
  fail(*failure, remains);
}

GroupErrors& Lane::any_group() const {
  if (!receives_.empty()) return receives_.group();
  for (const List* const list : {&collectives_, &messages_}) {
    if (!list->empty()) return *list->front().group;
  }
  return *on_device_.front().group;
}

std::optional<Failure> Lane::look_at_all() {
  std::optional<Failure> failure;
  const auto check = [&](Pending& pending) {
    if (!failure)
      failure = WaitCheck{pending.operation, pending.sequence, pending.deadline, pending.record, pending.warned}.look(*pending.group, *pending.task);
  };
  if (!collectives_.empty()) check(collectives_.front());
  if (!failure) failure = receives_.look();
  for (auto& pending : messages_) check(pending);
  for (auto& pending : on_device_) check(pending);
  return failure;
}

void Lane::fail(const Failure& failure, Remains& remains) {
  end([&](const Ended& ended) { return ended.group.fail(failure, ended.operation, ended.sequence); }, remains);
}

void Lane::end_rest(Remains& remains) {
  end([](const Ended& ended) { return ended.group.error_when_over(ended.operation, ended.sequence); }, remains);
}

namespace {
Ended ended(const Pending& pending) { return {*pending.group, pending.operation, pending.sequence, *pending.task, pending.where}; }
}  // namespace

void Lane::end(const ErrorOf& error_of, Remains& remains) {
  state_.is_over = state_.is_over || count() > 0;
  receives_.end(error_of, remains);
  for (List* list : {&collectives_, &messages_, &on_device_}) {
    for (Pending& pending : *list) finish(pending, error_of(ended(pending)), remains);
  }
  clear();
}

void Lane::visit(const std::function<void(const Ended&)>& look) {
  receives_.visit(look);
  for (const List* list : {&collectives_, &messages_, &on_device_}) {
    for (const Pending& pending : *list) look(ended(pending));
  }
}

bool Lane::cancel(const detail::WorkState& state, Remains& remains) {
  if (const auto is_cancelled = receives_.cancel(state, remains)) {
    set_counts();
    return *is_cancelled;
  }
  const auto found = std::ranges::find_if(messages_, [&](const Pending& pending) { return &*pending.state == &state; });
  if (found == messages_.end() || !found->task->cancel()) return false;
  finish(*found, nullptr, remains);
  if (!found->is_urgent) --leisurely_count_;
  messages_.erase(found);
  set_counts();
  return true;
}

// A group lives while it has receives, so there is none left where it ends.
void Lane::clear() {
  collectives_.clear();
  messages_.clear();
  on_device_.clear();
  leisurely_count_ = 0;
  set_counts();
}

void settle(detail::WorkState& state, const std::exception_ptr& error, const Arrival& arrival, bool is_collective, DeferredError& deferred,
            Remains& remains) {
  const std::lock_guard lock(state.mutex);
  if (!error && !state.completion) state.arrival = arrival;
  state.error = error;
  state.settled = true;
  std::move(state.then.begin(), state.then.end(), std::back_inserter(remains.callbacks));
  state.then.clear();
  state.went_well.store(!error, std::memory_order_release);
  if (error && state.dropped) deferred.set(error, is_collective ? state.dropped_after : DeferredError::no_queued_call);
  state.set_done();
  remains.any_done = true;
}

}  // namespace unisono::group
