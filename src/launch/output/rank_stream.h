#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "launch/output/sink.h"

namespace unisono::launcher {

/// The file of one rank under --logs: its lines as it wrote them, standard output and error in the order they arrived. A file that cannot be written
/// (a full disk) is given up with one warning for the whole job; the job goes on.
class RankLog {
 public:
  RankLog() = default;  ///< writes nowhere
  /// Makes DIR/rank-R.log (DIR/rank-R.attempt-A.log after a restart).
  RankLog(const std::string& directory, int rank, int attempt);
  RankLog(RankLog&&) = default;
  RankLog& operator=(RankLog&&) = default;

  bool is_open() const noexcept { return file_.valid(); }
  void append(std::string_view bytes);
  /// Returns a warning once, then empty text.
  std::string take_warning();

 private:
  void give_up(int error);

  base::FileDescriptor file_;
  std::string path_;
  std::string warning_;
};

/// The folder of one job.
struct LogFolder {
  std::string path = {};     ///< empty if there is none
  std::string warning = {};  ///< why there is none: the disk is full
};

/// Makes a folder for the job in `directory`, which is made as well if needed. The folder is named after the time and the job unless it gets a name,
/// and the link `latest` in `directory` points to it. Throws StartFailed where that is impossible, except on a full disk.
LogFolder make_log_folder(const std::string& directory, const std::string& job_id, const std::string& name_of_folder = {});
/// Returns the name that the folder of a job would have now.
std::string log_folder_name(const std::string& job_id);

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
