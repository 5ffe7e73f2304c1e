#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "launch/rank_log.h"
#include "launch/sink.h"

namespace unisono::launcher {

/// Standard output or standard error of one rank on its way to the launcher's: cut into lines, each with the rank's prefix.
///
/// Where a line rewrites itself with '\r' (a progress bar), a terminal shows its latest state as the sink's live line and keeps only the last;
/// elsewhere everything is kept, and the prefix is repeated after each '\r', so that the line reads well when it is shown.
///
/// Where the rank says its own number once more at the beginning of a line, that is left out: PyTorch writes "[rank3]: …" and this library
/// "[unisono rank 3] …". The log keeps it.
class RankStream {
 public:
  RankStream(Sink& sink, RankLog& log, std::string prefix, int rank);

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
  /// How many lines the sink has got since the rank's last few began.
  std::uint64_t lines_since_its_last() const noexcept { return last_shown_.empty() ? 0 : sink_->lines() - last_shown_.front(); }

 private:
  void emit(std::string_view text, bool with_newline);
  void show_bar();
  void remember(std::string_view text);
  /// The text without its own mark of the rank; in `room` where it must be put together.
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
