#pragma once

#include <sys/ioctl.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "launch/poll_set.h"
#include "launch/rank_stream.h"
#include "launch/supervisor.h"

namespace unisono::launcher {

/// The launcher's own standard output and error: one sink each, or one for both where they are the same file, so that lines stay whole.
class Console {
 public:
  Console(const base::Environment& environment, Verbosity verbosity);

  Sink& out() noexcept { return out_; }
  Sink& err() noexcept { return shared_ ? out_ : err_; }
  bool has_terminal() const noexcept { return out_.is_terminal() || err_.is_terminal(); }
  /// "[ 3] " in a job of 10 to 99 ranks; in a colour of its own where the sink is a terminal and NO_COLOR is not set.
  std::string prefix(int rank, int world_size, const Sink& sink) const;
  /// A sentence of the launcher's own on standard error: "[unisono] …", on a terminal broken at its width. Nothing where it is to be silent.
  void say(std::string_view text);
  /// The same for what must be seen among everything else: bold and red on a terminal.
  void shout(std::string_view text);
  /// The same for a line of a rank, which stays as it is.
  void quote(std::string_view line);
  void flush();
  void wait_for(PollSet& set);
  bool is_empty() { return (out_.is_empty() || out_.broken()) && (err_.is_empty() || err_.broken()); }
  /// Something could not be written, and not because its reader has left.
  bool has_lost_output() const noexcept { return out_.error() != 0 || err_.error() != 0; }

 private:
  void put(std::string_view text, std::string_view begin, std::string_view end);

  Sink out_;
  Sink err_;
  bool shared_;
  bool colour_;
  bool silent_;
  bool told_loss_ = false;
};

/// What an attempt's output needs to know.
struct OutputPlan {
  int first_rank = 0;
  int ranks = 1;  ///< of this host
  int world_size = 1;
  std::string log_folder = {};  ///< empty: no log files
  int attempt = 0;
  bool terminals = true;  ///< ranks write to a terminal where the launcher does
};

/// Brings what the ranks of one attempt write to the console and to their log files. Nothing that a rank has written is lost.
class OutputMultiplexer {
 public:
  OutputMultiplexer(Console& console, OutputPlan plan);

  // Ranks are counted from 0 in what follows.

  /// The ends that become a rank's standard output and error.
  struct WritingEnds {
    base::FileDescriptor out, err;
    bool out_is_terminal = false;
  };
  WritingEnds open(int rank);

  void wait_for(PollSet& set);
  /// After a round: shows prompts that have rested, passes warnings on.
  void tick();
  /// All writers are gone, or will not be waited for: reads what they have left behind.
  void drain();
  /// True when no rank (nor anybody it started) holds its output open any more.
  bool all_closed() const;
  void settle_live_lines();
  /// The launcher's terminal has another size: so have those of the ranks.
  void resize();
  /// Descriptors of the launcher that a child which does not exec has to close.
  std::vector<int> descriptors() const;
  /// The last lines of a rank's standard error, or of its output where it has written no errors. None where they have just been shown in the place
  /// where the launcher's own sentences go.
  const std::deque<std::string>& unseen_last_lines(std::size_t rank) const;

 private:
  struct Channel {
    Sink* sink;
    RankLog* log;
    RankStream stream;
    base::FileDescriptor source = {};  // of a pipe or a terminal
  };
  /// Reads once; false when there is nothing now or never again.
  bool read_some(Channel& channel);
  bool may_read(const Channel& channel) const;
  winsize size_of_ranks(const Sink& sink) const;

  Console* console_;
  const OutputPlan plan_;
  std::vector<std::unique_ptr<RankLog>> logs_;
  std::vector<Channel> channels_;  // two a rank: output, error
  bool warned_ = false;
};

}  // namespace unisono::launcher
