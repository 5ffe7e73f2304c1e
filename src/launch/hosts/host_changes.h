#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "launch/hosts/attempt_reports.h"
#include "launch/hosts/host_meeting.h"

namespace unisono::launcher {

/// Finds the launchers that have been silent for too long. Only time counts in which this process itself was running: after it was stopped, or the
/// whole machine was, what the others have said meanwhile has not been read yet.
class SilenceWatch {
 public:
  /// `silence`: a launcher that says nothing new for longer is silent. `longest_gap`: so much time at most counts between two looks.
  SilenceWatch(std::chrono::nanoseconds silence, std::chrono::nanoseconds longest_gap) : silence_(silence), longest_gap_(longest_gap) {}

  /// Begins a look at all launchers.
  void look(base::Clock::time_point now = base::Clock::now());
  /// Notes what the launcher of that host has said last. Returns true if it is silent.
  bool is_silent(int host, std::string_view said);

 private:
  struct Heard {
    std::string said;
    std::chrono::nanoseconds silent{};
  };
  const std::chrono::nanoseconds silence_, longest_gap_;
  base::Clock::time_point looked_{};
  std::chrono::nanoseconds gap_{};  // between the last two looks, as far as it counts
  std::map<int, Heard> heard_;
};

inline constexpr const char* leaving_mark = "it has left";  ///< says a launcher that goes by itself

/// The hosts that leave and come while the job runs: of a fixed number of them one that is gone ends the job. Node 0 decides which are members.
class HostChanges {
 public:
  HostChanges(HostMeeting& meeting, AttemptReports& reports) : meeting_(meeting), reports_(reports) {}
  virtual ~HostChanges() = default;
  HostChanges(const HostChanges&) = delete;
  HostChanges& operator=(const HostChanges&) = delete;

  /// Looks whether anything has changed.
  virtual void look();
  /// Returns the hosts whose launchers report how their ranks have ended; none if the reports are over. Any thread may call it.
  virtual std::vector<int> at_the_end(const std::string& own_ends);
  /// Takes no host in any more.
  virtual void close() {}
  /// Returns which hosts have come and gone since the last call, as sentences. Any thread may call it.
  virtual std::vector<std::string> take_news() { return {}; }

 protected:
  /// Reports that the launcher of a host is lost, which ends the job.
  void report_lost(const JobHost& host, const std::string& why, int attempt);

  HostMeeting& meeting_;
  AttemptReports& reports_;
};

/// The hosts of a job of MIN to MAX, which come and go.
class OpenHosts final : public HostChanges {
 public:
  using HostChanges::HostChanges;
  void look() override;
  std::vector<int> at_the_end(const std::string& own_ends) override;
  void close() override;
  std::vector<std::string> take_news() override;

 private:
  void look_for_own_loss();
  void look_for_the_gone(int attempt);
  void lose_ranks_of(const JobHost& host, int attempt);
  void add_news(std::vector<std::string> sentences);

  std::mutex mutex_;  // guards the next one
  std::vector<std::string> news_;
};

}  // namespace unisono::launcher
