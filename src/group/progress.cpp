#include "group/progress.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "schedule/device_call.h"
#include "group/backoff.h"
#include "group/group.h"
#include "group/wait_check.h"
#include "base/error_place.h"
#include "base/error_text.h"
#include "base/log.h"

namespace unisono::group {
namespace {

/// Waits for the device to be done with what was enqueued.
class DeviceWatch final : public Task {
 public:
  DeviceWatch(coordination::Coordination& coordination, std::shared_ptr<DeviceEvent> event)
      : attribution_(schedule::attribution_of_device(coordination)), event_(std::move(event)) {}
  bool advance() override {
    return attribution_.guard([&] { return event_->reached(); });
  }
  // All ranks have come; one that has its part done may leave.
  std::vector<int> waiting_for() const override { return {}; }
  bool wakes_waiter() const override { return false; }

 private:
  coordination::FailureAttribution attribution_;
  std::shared_ptr<DeviceEvent> event_;
};

}  // namespace

void Lane::defer(std::exception_ptr error, std::uint64_t after) {
  const std::lock_guard lock(deferred_mutex);
  if (!deferred) {
    deferred = std::move(error);
    deferred_after = after;
  }
  has_deferred.store(true, std::memory_order_release);
}

std::exception_ptr Lane::take_deferred() {
  const std::lock_guard lock(deferred_mutex);
  has_deferred.store(false, std::memory_order_relaxed);
  return std::exchange(deferred, nullptr);
}

std::exception_ptr Lane::take_deferred_for(std::uint64_t queued_call) {
  const std::lock_guard lock(deferred_mutex);
  if (!deferred || queued_call <= deferred_after) return nullptr;
  has_deferred.store(false, std::memory_order_relaxed);
  return std::exchange(deferred, nullptr);
}

void call_back(const std::function<void()>& callback) noexcept {
  try {
    callback();
  } catch (...) {  // it may not throw, and there is nobody to tell but the log
    base::warn("what was to be done after an operation failed: " + base::what_of(std::current_exception()));
  }
}

/// Holds the lock; lets go of what was retired under it after it is released.
class Progress::Locked {
 public:
  explicit Locked(Progress& progress) : progress_(progress), lock_(progress.mutex_) {}
  Locked(Progress& progress, std::try_to_lock_t) : progress_(progress), lock_(progress.mutex_, std::try_to_lock) {}
  ~Locked() {
    if (!lock_.owns_lock()) return;
    const Retired retired = std::exchange(progress_.retired_, {});
    lock_.unlock();
    for (const auto& callback : retired.callbacks) call_back(callback);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  bool owns() const { return lock_.owns_lock(); }
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  Progress& progress_;
  std::unique_lock<std::mutex> lock_;
};

Progress::~Progress() { stop(); }

void Progress::configure(base::Notifier* notifier, bool crowded) {
  const std::lock_guard lock(mutex_);
  notifier_ = notifier;
  crowded_ = crowded;
}

void Progress::add(const std::shared_ptr<Lane>& lane) {
  const std::lock_guard lock(mutex_);
  lanes_.push_back(lane);
}

void Progress::remove(const std::shared_ptr<Lane>& lane) {
  const Locked locked(*this);
  std::erase(lanes_, lane);
  pending_.fetch_sub(lane->pending_collectives + lane->pending_messages);
  lane->collectives.clear();
  lane->messages.clear();
}

/// One that waits, and drives what is pending meanwhile.
class Progress::Driver {
 public:
  explicit Driver(Progress& progress) : progress_(progress) { progress_.drivers_.fetch_add(1); }
  ~Driver() {
    if (progress_.drivers_.fetch_sub(1) != 1 || progress_.pending_.load() == 0) return;
    { const std::lock_guard lock(progress_.mutex_); }  // the thread has seen that nobody drives, or sleeps already: no notice is lost in between
    progress_.work_.notify_one();
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

 private:
  Progress& progress_;
};

std::shared_ptr<detail::WorkState> Progress::submit(const std::shared_ptr<Lane>& lane, Lane::Kind kind, std::unique_ptr<Pending> pending,
                                                    const std::function<std::unique_ptr<Task>()>& make) {
  return put(lane, kind, std::move(pending), make, false);
}

std::shared_ptr<detail::WorkState> Progress::carry_out(const std::shared_ptr<Lane>& lane, Lane::Kind kind, std::unique_ptr<Pending> pending,
                                                       const std::function<std::unique_ptr<Task>()>& make, const std::function<void()>& issued) {
  const Driver driver(*this);
  auto state = put(lane, kind, std::move(pending), make, true);
  issued();
  wait(*state, nullptr);
  return state;
}

std::shared_ptr<detail::WorkState> Progress::put(const std::shared_ptr<Lane>& lane, Lane::Kind kind, std::unique_ptr<Pending> pending,
                                                 const std::function<std::unique_ptr<Task>()>& make, bool caller_waits) {
  auto state = std::make_shared<detail::WorkState>();
  state->progress = shared_from_this();
  state->lane = lane;
  pending->state = state;
  {
    const Locked locked(*this);
    pending->task = make();
    pending_.fetch_add(1);
    pending->collective = kind == Lane::Kind::collective;
    if (pending->collective) {
      lane->pending_collectives.fetch_add(1);
      lane->collectives.push_back(std::move(pending));
    } else {
      lane->pending_messages.fetch_add(1);
      lane->messages.push_back(std::move(pending));
    }
    poll(*lane);  // as far as it goes at once: often that is all
  }
  if (!caller_waits && pending_.load() > 0) work_.notify_one();
  return state;
}

void Progress::get_ready() {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable() && !stop_) thread_ = base::Thread("the asynchronous operations", [this] { loop(); });
}

template <class Done>
bool Progress::drive(Done&& done, const base::Deadline* deadline) {
  if (done()) return true;
  const Driver driver(*this);
  Backoff backoff(notifier_, crowded_);
  for (;;) {
    const auto step = [&] {
      if (done()) return true;
      const Locked locked(*this, std::try_to_lock);
      return locked.owns() && poll();
    };
    if (step()) backoff.reset();
    if (done()) return true;
    if (deadline != nullptr && !backoff.is_spinning() && deadline->passed()) return done();
    std::chrono::nanoseconds longest = longest_sleep();
    if (deadline != nullptr && backoff.is_sleeping()) longest = std::min<std::chrono::nanoseconds>(longest, deadline->left());
    backoff.pause(step, longest);
  }
}

bool Progress::wait(detail::WorkState& state, const base::Deadline* deadline) {
  return drive([&] { return state.done.load(std::memory_order_acquire); }, deadline);
}

bool Progress::wait_until(const std::function<bool()>& done, const base::Deadline& deadline) { return drive(done, &deadline); }

void Progress::wait_any(const std::function<bool()>& any_done) { drive(any_done, nullptr); }

bool Progress::drain(Lane& lane, const base::Deadline& deadline) {
  return drive([&] { return lane.pending_collectives.load() + lane.pending_messages.load() == 0; }, &deadline);
}

std::chrono::nanoseconds Progress::longest_sleep() const {
  return all_wake_.load(std::memory_order_relaxed) ? std::chrono::nanoseconds(look_period) : std::chrono::nanoseconds(unnotified_period);
}

// One round over everything pending; true if anything was finished.
bool Progress::poll() {
  bool finished = false;
  bool wakes = true;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    finished = poll(*lanes_[i]) || finished;
    wakes = wakes && lanes_[i]->wakes;
  }
  all_wake_.store(wakes, std::memory_order_relaxed);
  return finished;
}

bool Progress::poll(Lane& lane) {
  const bool finished = step(lane);
  if (!lane.collectives.empty() || !lane.messages.empty()) look(lane);
  return finished;
}

bool Progress::step(Lane& lane) {
  bool finished = false;
  bool wakes = true;
  while (!lane.collectives.empty()) {
    Pending& front = *lane.collectives.front();
    std::exception_ptr owed;
    if (!front.begun && lane.has_deferred.load(std::memory_order_acquire)) owed = lane.take_deferred_for(front.sequence);
    front.begun = true;
    if (owed) {
      finish(lane, front, std::move(owed));
    } else if (!advance(lane, front)) {
      wakes = front.task->wakes_waiter();
      break;
    }
    if (front.task) {  // left to the device: it is watched beside the messages
      lane.pending_messages.fetch_add(1);
      lane.messages.push_back(std::move(lane.collectives.front()));
    } else {
      pending_.fetch_sub(1);
    }
    lane.collectives.pop_front();
    lane.pending_collectives.fetch_sub(1);
    finished = true;
  }
  for (auto it = lane.messages.begin(); it != lane.messages.end();) {
    const bool done = advance(lane, **it);
    if (done && !(*it)->task) {
      it = lane.messages.erase(it);
      lane.pending_messages.fetch_sub(1);
      pending_.fetch_sub(1);
      finished = true;
    } else {
      wakes = wakes && (*it)->task->wakes_waiter();
      finished = finished || done;
      ++it;
    }
  }
  lane.wakes = wakes;
  return finished;
}

bool Progress::advance(Lane& lane, Pending& pending) {
  try {
    if (!pending.task->advance()) return false;
    if (pending.task->completion() == nullptr) {
      finish(lane, pending, nullptr);
    } else {
      watch(pending);
      if (pending.collective) lane.last_on_device = pending.state->completion;
    }
  } catch (const Mismatch&) {
    finish(lane, pending,
           pending.collective ? pending.group->complete_collective(std::current_exception(), pending.operation, pending.sequence)
                              : pending.group->complete(std::current_exception(), pending.operation, pending.sequence));
  } catch (const GroupFailure& over) {
    finish(lane, pending, pending.group->fail(over.failure(), pending.operation, pending.sequence));
  } catch (...) {
    pending.group->abort_after(std::current_exception());
    finish(lane, pending, std::current_exception());
  }
  return true;
}

void Progress::watch(Pending& pending) {
  detail::WorkState& state = *pending.state;
  {
    const std::lock_guard lock(state.mutex);
    state.arrival = pending.task->arrival();
    state.completion = pending.task->completion();
    state.done.store(true, std::memory_order_seq_cst);
  }
  pending.task = std::make_unique<DeviceWatch>(pending.group->coordination(), state.completion);
  if (notifier_ != nullptr) notifier_->notify();
}

void Progress::finish(Lane& lane, Pending& pending, std::exception_ptr error) {
  lane.buffered.fetch_sub(pending.buffered);
  error = base::placed(std::move(error), pending.where);
  detail::WorkState& state = *pending.state;
  {
    const std::lock_guard lock(state.mutex);
    if (!error && !state.completion) state.arrival = pending.task->arrival();
    state.error = error;
    state.settled = true;
    std::move(state.then.begin(), state.then.end(), std::back_inserter(retired_.callbacks));
    state.then.clear();
    if (error && state.dropped) lane.defer(error, pending.collective ? state.dropped_after : Lane::no_queued_call);
    state.done.store(true, std::memory_order_seq_cst);
  }
  if (state.completion && lane.last_on_device == state.completion) lane.last_on_device.reset();
  pending.task.reset();
  retired_.groups.push_back(std::move(pending.group));
  if (notifier_ != nullptr) notifier_->notify();  // for a thread that waits for this very operation
}

// Deadlines, peers that are gone, groups that are over.
void Progress::look(Lane& lane) {
  const auto now = base::Clock::now();
  if (now < lane.next_look) return;
  lane.next_look = now + look_period;
  Pending& first = lane.collectives.empty() ? *lane.messages.front() : *lane.collectives.front();
  if (const auto known = first.group->coordination().failure()) return fail_all(lane, *known);
  const auto check = [](Pending& pending) {
    return WaitCheck{pending.operation, pending.sequence, pending.deadline, pending.warned}.look(*pending.group, *pending.task);
  };
  std::optional<Failure> failure;
  if (!lane.collectives.empty()) failure = check(*lane.collectives.front());
  for (auto it = lane.messages.begin(); !failure && it != lane.messages.end(); ++it) failure = check(**it);
  if (!failure) return;
  // What a peer did before it went still counts: if anything can still be finished, it is, and the next look decides.
  if (step(lane) || (lane.collectives.empty() && lane.messages.empty())) return;
  fail_all(lane, *failure);
}

void Progress::fail_all(Lane& lane, const Failure& failure) {
  clear(lane, [&](const Pending& pending) { return pending.group->fail(failure, pending.operation, pending.sequence); });
}

void Progress::end(Lane& lane, const std::function<std::exception_ptr(const Pending&)>& error_of) {
  const Locked locked(*this);
  clear(lane, error_of);
}

void Progress::clear(Lane& lane, const std::function<std::exception_ptr(const Pending&)>& error_of) {
  for (auto& pending : lane.collectives) finish(lane, *pending, error_of(*pending));
  for (auto& pending : lane.messages) finish(lane, *pending, error_of(*pending));
  pending_.fetch_sub(static_cast<int>(lane.collectives.size() + lane.messages.size()));
  lane.collectives.clear();
  lane.messages.clear();
  lane.pending_collectives.store(0);
  lane.pending_messages.store(0);
}

void Progress::loop() {
  base::set_log_rank(rank_text_);
  Backoff backoff = Backoff::modest(notifier_);
  while (!stop_.load()) {
    try {
      turn(backoff);
    } catch (...) {
      give_up(std::current_exception());
    }
  }
}

void Progress::turn(Backoff& backoff) {
  {
    Locked locked(*this);
    work_.wait(locked.lock(), [&] { return stop_.load() || (pending_.load() > 0 && drivers_.load() == 0); });
    if (stop_.load()) return;
    if (poll()) backoff.reset();
    if (pending_.load() == 0) return;
  }
  backoff.pause(
      [&] {
        const Locked locked(*this, std::try_to_lock);
        return stop_.load() || drivers_.load() > 0 || (locked.owns() && poll());
      },
      longest_sleep());
}

// What must not happen in the thread (no memory) ends what is pending, on all ranks.
void Progress::give_up(const std::exception_ptr& error) noexcept {
  try {
    const Locked locked(*this);
    for (const auto& lane : lanes_) {
      clear(*lane, [&](const Pending& pending) {
        pending.group->abort_after(error);
        return error;
      });
    }
  } catch (const std::exception& again) {
    base::log(base::LogLevel::error, again.what());
  }
}

void Progress::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
  }
  work_.notify_all();
  if (!thread_.joinable()) return;  // nobody to wake; a second stop may come when the notifier's memory is gone
  if (notifier_ != nullptr) notifier_->notify();
  thread_.join();
}

}  // namespace unisono::group
