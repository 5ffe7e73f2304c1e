#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "launch/output/output.h"
#include "launch/process/poll_set.h"
#include "launch/view/job_view.h"

namespace unisono::launcher {

struct JobOptions;
/// Tells whether a status line was asked for, and there is a terminal for it.
bool shows_status_line(const JobOptions& options);

/// The rank that others have waited for longest.
struct LateRank {
  int rank = -1;             ///< -1: none is late
  std::uint64_t for_ns = 0;  ///< they have waited so long
  std::string text = {};     ///< "rank 1 is late for all_reduce #7 of world by 10.0 s"
};
/// The parts of a status line.
struct StatusTexts {
  std::string each = {};    ///< "0 waiting, 1 program"
  std::string counts = {};  ///< "1 program, 1 waiting"
  LateRank late = {};

  /// Writes them as a line for a conductor, and reads them back. A line of another kind gives empty texts.
  std::string told(int restarts) const;
  static StatusTexts of(std::string_view told, int& restarts);
};
StatusTexts status_texts(const JobSeen& job);
/// Returns them as one line of at most so many columns: each rank where there is room for that, else how many are in each state; and the rank that
/// others wait for. `elapsed`: since the job began.
std::string status_line_text(const StatusTexts& texts, std::chrono::nanoseconds elapsed, int restarts, std::size_t columns);

/// The last row of a terminal, which says every second what the ranks do. Where a conductor shows the messages of all hosts, it gets the texts.
class StatusLine {
 public:
  StatusLine(Console& console, std::function<JobSeen()> look) : console_(console), look_(std::move(look)) {}

  /// Ends a round when the line is due.
  void wait_for(PollSet& set) const;
  /// Shows the line if it is due.
  void tick();
  /// The next tick shows it.
  void look_soon() { next_.reset(); }
  void hide();

 private:
  Console& console_;
  const std::function<JobSeen()> look_;
  const base::Clock::time_point begun_ = base::Clock::now();
  std::optional<base::Deadline> next_;
};

}  // namespace unisono::launcher
