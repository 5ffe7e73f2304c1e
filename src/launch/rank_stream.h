#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "ground/deadline.h"
#include "launch/rank_log.h"
#include "launch/sink.h"

namespace unisono::launcher {

/// Standard output or standard error of one rank on its way to the launcher's: cut into lines, each with the rank's prefix.
///
/// Where a line rewrites itself with '\r' (a progress bar), a terminal shows its latest state as the sink's live line and keeps only the last;
/// elsewhere everything is kept, and the prefix is repeated after each '\r', so that the line reads well when it is shown.
class RankStream {
 public:
  RankStream(Sink& sink, RankLog& log, std::string prefix) : sink_(&sink), log_(&log), prefix_(std::move(prefix)) {}

  void feed(std::string_view bytes);
  /// End of file: writes the line that has no '\n'.
  void finish();
  /// Terminal only: an unfinished line (a prompt) is shown after it has rested for a moment.
  std::optional<std::chrono::milliseconds> rests_for() const;
  void show_rested();
  /// The user has typed behind this stream's live line: it is on the screen for good.
  void settle();

  /// The last lines, oldest first; '\r' resolved, very long ones cut.
  const std::deque<std::string>& tail() const noexcept { return tail_; }

 private:
  void emit(std::string_view text, bool with_newline);
  void show_bar();
  void remember(std::string_view text);

  Sink* sink_;
  RankLog* log_;
  std::string prefix_;
  std::string partial_;
  std::deque<std::string> tail_;
  std::optional<ground::Deadline> rest_;
};

}  // namespace unisono::launcher
