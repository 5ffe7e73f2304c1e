#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/thread.h"
#include "controller/call.h"
#include "controller/frame.h"
#include "controller/incoming.h"
#include "controller/meeting.h"
#include "group/progress/progress.h"
#include "group/progress/work_state.h"
#include "unisono/error.h"

namespace unisono::controller {

/// A worker as the controller sees it. Everything in it is under the lock of Core.
struct Worker {
  std::unique_ptr<FrameLink> link = {};  ///< null for one that is lost, and was not replaced
  std::string host = {};
  int rank = -1;                                     ///< in the world of the job; -1: it was lost when the members met
  std::exception_ptr failure = {};                   ///< why it is lost
  std::uint64_t last = 0;                            ///< the number of the last call
  std::deque<std::shared_ptr<Call>> under_way = {};  ///< in the order of their numbers
  std::uint64_t flushed = 0;                         ///< the worker was asked to acknowledge the calls up to this one
  int generation = 0;
  std::unique_ptr<Head> head = {};  ///< where the head of its next frame is received
  Work receive = {};
  // The driver alone changes these, and uses them without the lock as well.
  std::shared_ptr<Call> answered = {};  ///< the call whose answer is coming
  std::shared_ptr<Incoming> rest = {};  ///< of that answer
};

/// The workers of a controller: sends calls, takes what comes back, and lets those wait who wait for it.
///
/// There is one lock, under which nothing of the program's runs and nothing is waited for. A thread that waits becomes the driver, if no other one
/// is: it waits for what any worker sends without the lock, and takes what has come under it. The others wait until the driver has taken something.
/// So a program with one thread has no second one in the way of a call.
class Core final : public CallDriver, public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<group::Progress> progress, int most_in_flight) : progress_(std::move(progress)), most_in_flight_(most_in_flight) {}
  ~Core() override { disconnect(); }

  /// Takes the workers, whose places are those of the list. Before any call.
  void connect(std::vector<std::unique_ptr<FrameLink>> links, const Roster& roster);
  /// The same after a replacement: a worker with a link that was lost is another process.
  void reconnect(std::shared_ptr<group::Progress> progress, std::vector<std::unique_ptr<FrameLink>> links, const Roster& roster);
  /// Lets go of the links. A call that was made behind the last message of a worker has PeerFailed.
  void disconnect();
  /// The workers that have no link after `disconnect` are lost, because of that.
  void give_up(const std::exception_ptr& why);

  int size() const noexcept { return static_cast<int>(workers_.size()); }
  std::shared_ptr<detail::RemoteCall> begin(int worker, detail::RemoteRequest&& request);
  void release(int worker, std::uint64_t object) noexcept;
  std::uint64_t new_object() noexcept { return next_object_.fetch_add(1, std::memory_order_relaxed); }
  std::exception_ptr failure(int worker);
  int generation(int worker);
  bool has_ended();
  /// Sends a frame without a body to all workers that live.
  void tell_all(Kind kind);
  /// Waits until all calls are done, those of callbacks as well.
  void finish_calls();
  /// No call is possible any more. Those under way have NotInitialized with that reason, which may be empty.
  void end(std::string_view reason);
  /// Ends the groups with all workers that live, which end with this reason.
  void abort(std::string_view reason);

  Lock lock() override { return Lock(mutex_); }
  bool drive(Lock& lock, const std::function<bool()>& done, const base::Deadline* deadline) override;
  void poll() override;
  void flush_for(const Call& call) override;
  void cancel(const Call& call) override;
  void need_thread() override;
  void run_callbacks(Lock& lock) override;

 private:
  using Callbacks = std::vector<std::function<void()>>;

  Worker& at(int worker);
  void start_receive(Worker& worker);
  /// Waits, without the lock, until a frame may have come.
  void wait_for_frames(const base::Deadline* deadline);
  void take_frames(Lock& lock);
  void take_frame(int number, Lock& lock);
  /// Ends the calls before the one that an answer is about, and returns that; null if it is about no other.
  std::shared_ptr<Call> answered_by(Worker& worker, const Head& head);
  /// Takes the steps of an answer that are possible, some without the lock. Returns whether all of it is there.
  bool take_rest(Worker& worker, Lock& lock);
  void finish_answer(Worker& worker);
  /// The answer is of no use any more.
  void drop_answer(Worker& worker);
  /// Keeps what the program may have a hand in until it can end without the lock.
  void leave(std::shared_ptr<const void> rest) {
    if (rest) left_.push_back(std::move(rest));
  }
  void finish(const std::shared_ptr<Call>& call, detail::Frame&& result, std::exception_ptr error);
  /// The worker is lost, and learns why if it lives.
  void lose(int number, const std::exception_ptr& why);
  /// The calls that are under way end: the worker is lost to them.
  void finish_all(Worker& worker, const std::exception_ptr& why);
  /// Sends; a worker that cannot be reached is lost. Does nothing where there is no link.
  void send(int number, const Head& head, detail::Frame&& frame = {});
  NotInitialized error_when_over() const;
  void see_to_calls();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_driven_ = false;
  int waiters_ = 0;
  int listened_ = 0;  ///< calls under way that somebody listens to
  Callbacks callbacks_;
  int running_ = 0;                                ///< threads that run callbacks
  std::vector<std::shared_ptr<const void>> left_;  ///< see `leave`
  std::vector<Worker> workers_;
  std::vector<detail::WorkState*> watched_;  ///< of the receives; changes under the driver's eyes only
  std::atomic<bool> stop_{false};
  std::atomic<bool> leaves_{false};   ///< the driver is to come back, whether or not anything has come
  std::optional<std::string> ended_;  ///< why; empty: in order
  std::shared_ptr<group::Progress> progress_;
  const int most_in_flight_;
  std::atomic<std::uint64_t> next_object_{1};
  base::Thread thread_;
};

}  // namespace unisono::controller
