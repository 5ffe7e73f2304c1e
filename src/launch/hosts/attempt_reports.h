#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "launch/hosts/host_meeting.h"
#include "launch/hosts/host_texts.h"
#include "launch/process/first_cause.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// The reports of the launchers of several hosts to each other during an attempt: the first trouble, and at its end how all ranks have ended. All of
/// them therefore name the same cause and return the same exit code. Threads wait for the reports of the others.
class AttemptReports {
 public:
  explicit AttemptReports(const HostMeeting& meeting) : meeting_(meeting) {}
  /// The store's connection must have ended: threads wait in it.
  ~AttemptReports() { join(); }
  AttemptReports(const AttemptReports&) = delete;
  AttemptReports& operator=(const AttemptReports&) = delete;

  void begin(int attempt);
  void give_up_restart(int attempt, int signal);
  void tell(Trouble trouble);
  std::optional<Trouble> take_trouble();
  std::optional<Trouble> first_trouble() { return locked(trouble_); }
  /// `hosts`: called by another thread; returns whose reports are waited for, none if that is over.
  void end(const std::vector<RankEnd>& ends, std::function<std::vector<int>(const std::string& own_ends)> hosts);
  bool all_ended() { return locked(complete_); }
  std::vector<RankEnd> ends() { return locked(ends_); }
  int replacements() { return locked(replacements_); }

  // For the threads that watch over the hosts:

  /// Returns the number of the attempt under way, if there is one.
  std::optional<int> attempt() { return locked(attempt_); }
  /// Waits so long, or until there is something to tell; tells it. Returns false where this object ends.
  bool tell_within(std::chrono::milliseconds pause);
  /// Notes trouble that no launcher has reported.
  void note(Trouble trouble);
  void lose_store(const std::exception& error);
  bool is_store_lost() { return locked(store_lost_).has_value(); }
  /// Returns a descriptor that is readable when there is something to take.
  int fd() const { return notifier_.fd(); }
  void notify() const { notifier_.notify(); }
  bool is_stopped() { return locked(stop_); }
  void stop();
  void join();

 private:
  template <class Member>
  Member locked(const Member& member) {
    const std::lock_guard lock(mutex_);
    return member;
  }
  void listen(int attempt);
  void gather(const std::string& own_ends, const std::function<std::vector<int>(const std::string& own_ends)>& hosts);
  void write_told(const std::string& place, const std::vector<Trouble>& telling);

  const HostMeeting& meeting_;
  const Notifier notifier_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool stop_ = false;
  std::optional<int> attempt_;
  std::vector<Trouble> to_tell_;
  std::optional<Trouble> trouble_;
  bool trouble_taken_ = false, complete_ = false;
  std::vector<RankEnd> ends_;
  int replacements_ = 0;
  std::optional<std::string> store_lost_;
  base::Thread listening_, gathering_;
};

}  // namespace unisono::launcher
