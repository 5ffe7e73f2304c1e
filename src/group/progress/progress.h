#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "group/progress/lanes.h"
#include "group/progress/progress_thread.h"
#include "unisono/engine.h"

namespace unisono::group {

/// Advances the asynchronous operations of all groups: one per process, or per rank where ranks are threads. A caller that waits for an operation
/// advances all that is pending meanwhile; the thread does so only when nobody waits.
class Progress : public std::enable_shared_from_this<Progress> {
 public:
  explicit Progress(std::string rank_text) : thread_(lanes_, std::move(rank_text)) {}
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// See Lanes.
  void configure(base::Notifier* notifier, bool crowded, base::Neighbours* neighbours) { lanes_.configure(notifier, crowded, neighbours); }
  void add(const std::shared_ptr<Lane>& lane) { lanes_.add(lane); }
  void remove(const std::shared_ptr<Lane>& lane) { lanes_.remove(lane); }

  /// Starts the thread where it does not run yet: what is submitted afterwards is advanced whether or not anybody waits. Error where there is no
  /// thread to be had.
  void get_ready();
  using MakeTask = std::function<std::unique_ptr<Task>()>;
  /// When the thread sees to what is submitted: at once, or, as for `post`, when no caller has come for a while.
  enum class Thread { at_once, later };
  /// Calls `make` where no other thread advances the lane, and not where the lane is over. The caller has called get_ready.
  StatePtr submit(const std::shared_ptr<Lane>& lane, Lane::Kind kind, Pending pending, const MakeTask& make, Thread thread = Thread::at_once);
  /// Posts a receive. The thread is not woken for it at once: a caller that posts a window of receives waits for them soon. The caller has called
  /// get_ready.
  void post(Lane& lane, PendingReceive& receive, GroupErrors& group, MessageMatcher& messages, const MessageCall& call);
  /// Has the thread advance what is pending although callers post and wait: somebody counts on it.
  void need_thread();
  /// Submits a collective for a caller that waits for it at once, so that no other thread is woken. `issued` is called when the operation has its
  /// place in the lane; `describe` makes its entry there. A caller whose operation may leave something to a device has called get_ready.
  ///
  /// An operation on the host's memory is tried for a moment first, where nothing else is pending. If that is all it takes it needs no place in the
  /// lane: the result is null then, and what the task threw is thrown as it is.
  ///
  /// So is one on a device's memory, where only the device has anything pending: it is watched then, as by `watch`.
  enum class Memory { host, device };
  using Describe = std::function<Pending()>;
  StatePtr carry_out(const std::shared_ptr<Lane>& lane, Memory memory, const Describe& describe, const MakeTask& make,
                     const std::function<void()>& issued);
  /// Watches an operation that its caller has carried out as far as the device, which has yet to reach `completion`. The caller has called get_ready.
  StatePtr watch(const std::shared_ptr<Lane>& lane, Pending pending, std::shared_ptr<DeviceEvent> completion);
  /// Calls `f` while no other thread advances a lane.
  template <class F>
  auto exclusively(F&& f);
  /// Goes once over all that is pending.
  void look_once();
  /// Goes once over what is pending in the lane.
  void advance(Lane& lane);
  void wait(detail::WorkState& state);
  /// Waits for a condition that what is pending brings about. Returns false when the deadline has passed first.
  bool wait_until(const std::function<bool()>& done, const base::Deadline& deadline);
  void wait_until(const std::function<bool()>& done);
  /// Waits until the lane is empty; false if that takes longer.
  bool drain(Lane& lane, const base::Deadline& deadline);
  /// Takes a receive back: see Lane::cancel.
  bool cancel(detail::WorkState& state);
  /// Calls the function for everything that is pending in the lane.
  void visit(Lane& lane, const std::function<void(const Ended&)>& look);
  /// Ends what is pending in the lane, each operation with its error.
  void end(Lane& lane, const ErrorOf& error_of);
  /// Ends the thread. What is pending stays as it is.
  void stop() { thread_.stop(); }

 private:
  class Waiting;

  bool is_done_soon(const Lane& lane, Memory memory, Task& task) const;
  StatePtr put(const std::shared_ptr<Lane>& lane, Lane::Kind kind, Pending pending, const MakeTask& make, Thread thread);
  StatePtr watch_in(Lanes::Locked& locked, const std::shared_ptr<Lane>& lane, Pending pending, std::shared_ptr<DeviceEvent> completion);
  StatePtr state_in(const std::shared_ptr<Lane>& lane);
  template <class Done>
  bool drive(Done&& done, const base::Deadline* deadline);
  void wake_thread();

  Lanes lanes_;
  ProgressThread thread_;
};

template <class F>
auto Progress::exclusively(F&& f) {
  const Lanes::Locked locked(lanes_);
  return f();
}

}  // namespace unisono::group
