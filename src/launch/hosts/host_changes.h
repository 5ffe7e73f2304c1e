#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "launch/hosts/attempt_reports.h"
#include "launch/hosts/host_meeting.h"

namespace unisono::launcher {

inline constexpr const char* leaving_mark = "it has left";  ///< says a launcher that goes by itself

/// The hosts that leave and come while the job runs. Node 0 decides which of them are members.
class HostChanges {
 public:
  HostChanges(HostMeeting& meeting, AttemptReports& reports) : meeting_(meeting), reports_(reports) {}
  virtual ~HostChanges() = default;
  HostChanges(const HostChanges&) = delete;
  HostChanges& operator=(const HostChanges&) = delete;

  /// Looks whether anything has changed.
  virtual void look() = 0;
  /// Returns the hosts whose launchers report how their ranks have ended; none where the reports are over. Any thread may call it.
  virtual std::vector<int> at_the_end(const std::string& own_ends) = 0;
  /// Takes no host in any more.
  virtual void close() {}
  /// Returns which hosts have come and gone since the last call, as sentences. Any thread may call it.
  virtual std::vector<std::string> take_news() { return {}; }

 protected:
  HostMeeting& meeting_;
  AttemptReports& reports_;
};

/// The hosts of a job with a fixed number of them: one that is gone ends the job.
class FixedHosts final : public HostChanges {
 public:
  using HostChanges::HostChanges;
  void look() override;
  std::vector<int> at_the_end(const std::string& own_ends) override;
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
