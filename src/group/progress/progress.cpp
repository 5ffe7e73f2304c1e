#include "group/progress/progress.h"

#include <algorithm>
#include <optional>

#include "base/switches.h"
#include "group/devices/device_streams.h"
#include "group/group_facts.h"
#include "group/progress/lanes.h"
#include "group/progress/waiter.h"
#include "recorder/recorder.h"

namespace unisono::group {

Lanes::Locked::~Locked() {
  if (!lock_.owns_lock()) return;
  if (remains_.any_done && lanes_.notifier_ != nullptr) lanes_.notifier_->notify();
  lock_.unlock();
  for (const auto& callback : remains_.callbacks) call_back(callback);
}

void Lanes::configure(base::Notifier* notifier, bool crowded, base::Neighbours* neighbours) {
  const std::lock_guard lock(mutex_);
  notifier_ = notifier;
  crowded_ = crowded;
  neighbours_ = neighbours;
}

void Lanes::add(const std::shared_ptr<Lane>& lane) {
  const std::lock_guard lock(mutex_);
  lane->serve(contenders_);
  lanes_.push_back(lane);
}

void Lanes::remove(const std::shared_ptr<Lane>& lane) {
  Locked locked(*this);
  std::erase(lanes_, lane);
  locked.change(*lane, [](Lane& removed, Remains&) { removed.clear(); });
}

void Lanes::need_thread() {
  const std::lock_guard lock(mutex_);
  needed_at_.store(activity(), std::memory_order_relaxed);
}

std::chrono::nanoseconds Lanes::longest_sleep() const {
  return all_wake_.load(std::memory_order_relaxed) ? std::chrono::nanoseconds(look_period) : std::chrono::nanoseconds(unnotified_period);
}

bool Lanes::poll(Locked& locked, Lane::Look look) {
  bool any_done = false;
  bool all_wake = true;
  for (const auto& lane : lanes_) {
    locked.change(*lane, [&](Lane& to, Remains& remains) { any_done = to.poll(remains, look) || any_done; });
    all_wake = all_wake && lane->wakes_waiter();
  }
  all_wake_.store(all_wake, std::memory_order_relaxed);
  return any_done;
}

void Lanes::end(Locked& locked, const ErrorOf& error_of) {
  for (const auto& lane : lanes_) locked.change(*lane, [&](Lane& ended, Remains& remains) { ended.end(error_of, remains); });
}

/// A caller that waits, and advances what is pending meanwhile.
class Progress::Waiting {
 public:
  explicit Waiting(Progress& progress) : progress_(progress) { progress_.lanes_.begin_waiting(); }
  ~Waiting() {
    if (progress_.lanes_.end_waiting()) progress_.wake_thread();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Progress& progress_;
};

// The lock is taken in between, so that the thread has seen that nobody waits, or sleeps already: the notice is not lost. A thread that dozes sees it
// soon.
void Progress::wake_thread() {
  if (!thread_.sleeps() && !lanes_.needs_thread_at_once()) return;
  { const std::lock_guard lock(lanes_.mutex()); }
  thread_.wake();
}

void Progress::need_thread() {
  if (lanes_.needs_thread_at_once()) return;
  lanes_.need_thread();
  thread_.wake();
}

void Progress::get_ready() {
  if (thread_.is_running()) return;
  const Lanes::Locked locked(lanes_);
  thread_.start();
}

StatePtr Progress::submit(const std::shared_ptr<Lane>& lane, Lane::Kind kind, Pending pending, const MakeTask& make, Thread thread) {
  auto state = put(lane, kind, std::move(pending), make, thread);
  if (lanes_.count() > 0 && (thread == Thread::at_once || thread_.sleeps())) thread_.wake();
  return state;
}

void Progress::post(Lane& lane, PendingReceive& receive, GroupErrors& group, MessageMatcher& messages, const MessageCall& call) {
  {
    Lanes::Locked locked(lanes_);
    locked.change(lane, [&](Lane& to, Remains& remains) { to.post(receive, group, messages, call, remains); });
    lanes_.note_activity();
  }
  if (lanes_.count() > 0 && thread_.sleeps()) thread_.wake();
}

StatePtr Progress::carry_out(const std::shared_ptr<Lane>& lane, Memory memory, const Describe& describe, const MakeTask& make,
                             const std::function<void()>& issued) {
  std::optional<Waiting> waiting;
  StatePtr state;
  {
    Lanes::Locked locked(lanes_);
    auto task = lane->is_over() ? nullptr : make();
    const bool is_soon = task != nullptr && is_done_soon(*lane, memory, *task);
    if (auto completion = is_soon ? task->completion() : nullptr) {
      auto watched = describe();
      watched.collective = true;
      state = watch_in(locked, lane, std::move(watched), std::move(completion));
    } else if (!is_soon) {
      waiting.emplace(*this);
      auto pending = describe();
      state = pending.state = state_in(lane);
      pending.task = std::move(task);
      locked.change(*lane, [&](Lane& to, Remains& remains) { to.add(Lane::Kind::collective, std::move(pending), remains); });
    }
  }
  issued();
  if (state) wait(*state);
  return state;
}

// Holds the lock meanwhile, and stops where another thread wants it. No failure is looked for, so it is short.
bool Progress::is_done_soon(const Lane& lane, Memory memory, Task& task) const {
  // What is pending is advanced as well, and comes first. The work of a device is not: it needs nobody.
  const bool is_first = memory == Memory::device ? !lane.has_collectives() && !lane.has_messages() : lanes_.count() == 0;
  if (!is_first || lane.deferred.is_set()) return false;
  Backoff backoff = lanes_.backoff();
  while (!task.advance()) {
    if (lanes_.is_wanted() || !backoff.spin()) return false;
  }
  return true;
}

StatePtr Progress::put(const std::shared_ptr<Lane>& lane, Lane::Kind kind, Pending pending, const MakeTask& make, Thread thread) {
  auto state = state_in(lane);
  pending.state = state;
  pending.is_urgent = thread == Thread::at_once;
  Lanes::Locked locked(lanes_);
  if (!lane->is_over()) pending.task = make();
  locked.change(*lane, [&](Lane& to, Remains& remains) { to.add(kind, std::move(pending), remains); });
  if (thread == Thread::later) lanes_.note_activity();
  return state;
}

StatePtr Progress::watch(const std::shared_ptr<Lane>& lane, Pending pending, std::shared_ptr<DeviceEvent> completion) {
  Lanes::Locked locked(lanes_);
  return watch_in(locked, lane, std::move(pending), std::move(completion));
}

// The caller has what it wants. The thread is not woken for the rest of each call of a row: callers come and go, and see to what came before.
StatePtr Progress::watch_in(Lanes::Locked& locked, const std::shared_ptr<Lane>& lane, Pending pending, std::shared_ptr<DeviceEvent> completion) {
  auto state = state_in(lane);
  state->completion = std::move(completion);
  state->set_done();
  pending.task = std::make_unique<DeviceWatch>(pending.group->coordination(), state->completion);
  pending.state = state;
  pending.is_urgent = false;
  locked.change(*lane, [&](Lane& to, Remains& remains) { to.add_watched(std::move(pending), remains); });
  lanes_.note_activity();
  if (lanes_.count() > 0 && thread_.sleeps()) thread_.wake();
  return state;
}

StatePtr Progress::state_in(const std::shared_ptr<Lane>& lane) {
  StatePtr state(new detail::WorkState);
  state->hold();
  state->progress = shared_from_this();
  state->lane = lane;
  return state;
}

template <class Done>
bool Progress::drive(Done&& done, const base::Deadline* deadline) {
  if (done()) return true;
  const Waiting waiting(*this);
  Backoff backoff = lanes_.backoff();
  base::InterruptionLook look_for_interruption;
  constexpr unsigned polls_of_a_look = 64;  // where something goes on all the time; a caller that has spun in vain looks each time
  unsigned polls = 0;
  for (;;) {
    const auto step = [&] {
      if (done()) return true;
      std::optional<Lanes::Locked> locked(std::in_place, lanes_, std::try_to_lock);
      if (!locked->owns() && thread_.is_polling()) locked.emplace(lanes_);  // it may copy large messages, and gives them up between two
      return locked->owns() && lanes_.poll(*locked, backoff.is_spinning() && ++polls % polls_of_a_look != 0 ? Lane::Look::no : Lane::Look::yes);
    };
    if (step()) backoff.reset();
    if (done()) return true;
    if (deadline != nullptr && !backoff.is_spinning() && deadline->passed()) return done();
    if (!backoff.is_spinning()) look_for_interruption();
    std::chrono::nanoseconds longest = lanes_.longest_sleep();
    if (deadline != nullptr && backoff.is_sleeping()) longest = std::min<std::chrono::nanoseconds>(longest, deadline->left());
    backoff.pause(step, longest);
  }
}

void Progress::look_once() {
  Lanes::Locked locked(lanes_);
  lanes_.poll(locked);
}

void Progress::advance(Lane& lane) {
  Lanes::Locked locked(lanes_);
  locked.change(lane, [](Lane& pending, Remains& remains) { pending.poll(remains); });
}

void Progress::wait(detail::WorkState& state) {
  const auto is_done = [&] { return state.is_done(); };
  if (is_done()) {
    drive(is_done, nullptr);
    return;
  }
  // Others see that the program does nothing else in this time.
  const auto recorder = recorder::of_process();
  const recorder::ProgramWait waiting(*recorder);
  if (!recorder::traces.load(std::memory_order_relaxed)) {
    drive(is_done, nullptr);
    return;
  }
  recorder::Recording recording(*recorder, {.label = recorder::wait_label});
  drive(is_done, nullptr);
  recording.succeed();
}

bool Progress::wait_until(const std::function<bool()>& done, const base::Deadline& deadline) { return drive(done, &deadline); }

void Progress::wait_until(const std::function<bool()>& done) { drive(done, nullptr); }

bool Progress::drain(Lane& lane, const base::Deadline& deadline) {
  return drive([&] { return lane.count() == 0; }, &deadline);
}

bool Progress::cancel(detail::WorkState& state) {
  bool is_cancelled = false;
  Lanes::Locked locked(lanes_);
  locked.change(*state.lane, [&](Lane& lane, Remains& remains) { is_cancelled = lane.cancel(state, remains); });
  return is_cancelled;
}

void Progress::visit(Lane& lane, const std::function<void(const Ended&)>& look) {
  const Lanes::Locked locked(lanes_);
  lane.visit(look);
}

void Progress::end(Lane& lane, const ErrorOf& error_of) {
  Lanes::Locked locked(lanes_);
  locked.change(lane, [&](Lane& ended, Remains& remains) { ended.end(error_of, remains); });
}

}  // namespace unisono::group
