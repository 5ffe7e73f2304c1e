#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "launch/output/rank_log.h"
#include "launch/output/sink.h"

namespace unisono::launcher {

/// Carries standard output or standard error of one rank to the launcher's: it is cut into lines, each with the rank's prefix.
///
/// If a line rewrites itself with '\r' (a progress bar), a terminal shows its latest state as the sink's live line and keeps only the last state.
/// Elsewhere everything is kept, and the prefix is repeated after each '\r', so that the line reads well when it is shown.
///
/// A rank's own number at the beginning of a line is left out: PyTorch writes "[rank3]: …" and this library "[unisono rank 3] …". The log keeps it.
class RankStream {
 public:
  RankStream(Sink& sink, RankLog& log, std::string prefix, int rank);

  void feed(std::string_view bytes);
  /// Writes the last line, which has no '\n', at the end of the stream.
  void finish();
  /// Returns, on a terminal only, how long an unfinished line (a prompt) must rest before it is shown.
  std::optional<std::chrono::milliseconds> rests_for() const;
  void show_rested();
  /// Leaves the live line on the screen for good, because the user has typed behind it.
  void settle();

  /// Returns the last lines, oldest first; '\r' is resolved, and very long lines are cut.
  const std::deque<std::string>& tail() const noexcept { return tail_; }
  /// Returns how many lines the sink has got since the first of this rank's last few lines.
  std::uint64_t lines_since_its_last() const noexcept { return last_shown_.empty() ? 0 : sink_->lines() - last_shown_.front(); }

 private:
  void emit(std::string_view text, bool with_newline);
  void show_bar();
  void remember(std::string_view text);
  /// Returns the text without its own mark of the rank. `room` holds the text if it has to be joined.
  std::string_view without_own_rank(std::string_view text, std::string& room) const;

  Sink* sink_;
  RankLog* log_;
  std::string prefix_;
  std::string torch_prefix_;    // "[rank3]:"
  std::string unisono_prefix_;  // "[unisono rank 3] "
  std::string partial_;
  std::deque<std::string> tail_;
  std::deque<std::uint64_t> last_shown_;  // the sink's count before each of the last few lines
  std::optional<base::Deadline> rest_;
};

}  // namespace unisono::launcher
