#pragma once

#include <sys/ioctl.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "launch/job_options.h"
#include "launch/output/rank_stream.h"
#include "launch/process/environment_block.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// A terminal for the output of a rank. Bytes written to `writing` are read from `reading` unchanged: no echo, no '\r' before '\n', no signals from
/// characters. No process gets it as its controlling terminal. After the last descriptor of `writing` is closed, reading gives what is left and then
/// EIO.
struct PseudoTerminal {
  base::FileDescriptor reading, writing;
};

/// Returns nothing where the system has no pseudo-terminals (left).
std::optional<PseudoTerminal> open_pseudo_terminal(const winsize& size);

/// Makes programs write to this pipe, their standard output, at every end of line, although it is no terminal: Python by PYTHONUNBUFFERED, users of
/// the C library's stdio (printf, std::cout) by a small preloaded library (LD_PRELOAD). `isatty` stays false, and a reader that leaves still ends the
/// writer by SIGPIPE. Statically linked programs are not reached. Variables set by the user are kept.
void write_line_by_line(EnvironmentBlock& environment, int pipe, const std::string& program);

/// The subject of a message of the launcher. The conductor of several hosts shows some of them once, although each host's launcher sends them.
enum class Topic { other, failing, restart, lost, interrupt, logs, metrics };

/// The launcher's own standard output and error, each a sink. Where both are the same file they are one sink, so that lines stay whole.
///
/// With a conductor's descriptor the launcher's own messages go there, each as a line "say TOPIC TEXT", "shout TOPIC TEXT" or "quote TOPIC TEXT".
class Console {
 public:
  Console(const base::Environment& environment, Verbosity verbosity, int conductor = -1);

  Sink& out() noexcept { return out_; }
  Sink& err() noexcept { return shared_ ? out_ : err_; }
  /// Returns "[ 3] " in a job of 10 to 99 ranks, in a colour of its own where the sink is a terminal and NO_COLOR is not set.
  std::string prefix(int rank, int world_size, const Sink& sink) const;
  /// Writes a sentence of the launcher to standard error as "[unisono] …", broken at the width of a terminal. A silent console writes nothing.
  void say(std::string_view text, Topic topic = Topic::other);
  /// Writes a sentence that must stand out: bold and red on a terminal.
  void shout(std::string_view text, Topic topic = Topic::other);
  /// Writes a line of a rank unchanged.
  void quote(std::string_view line);
  /// Tells the conductor, if there is one, that the launchers of all hosts have met.
  void tell_met() const { tell_conductor("met", Topic::other, {}); }
  bool has_conductor() const noexcept { return conductor_ >= 0; }
  /// Tells the conductor what the ranks do.
  void tell_state(std::string_view text) const { tell_conductor("state", Topic::other, text); }
  /// Shows a sentence of the launcher in the last row of standard error, if that is a terminal; an empty one takes it away.
  void set_footer(std::string_view text);
  /// The terminal has another size.
  void resize();
  /// The user has ended a line on the terminal.
  void note_typed();
  void flush();
  void wait_for(PollSet& set);
  bool is_empty() { return (out_.is_empty() || out_.broken()) && (err_.is_empty() || err_.broken()); }
  /// Returns true if a write failed for another reason than that the reader has left.
  bool has_lost_output() const noexcept { return out_.error() != 0 || err_.error() != 0; }

 private:
  void put(std::string_view text, std::string_view begin, std::string_view end);
  void tell_conductor(std::string_view how, Topic topic, std::string_view text) const;

  Sink out_;
  Sink err_;
  bool shared_;
  bool colour_;
  bool silent_;
  int conductor_;
  bool told_loss_ = false;
};

/// The properties of an attempt's output.
struct OutputPlan {
  int first_rank = 0;
  int ranks = 1;  ///< on this host
  int world_size = 1;
  std::string log_folder = {};  ///< empty: no log files
  int attempt = 0;
  bool terminals = true;  ///< ranks write to a terminal where the launcher does
};

/// Copies what the ranks of one attempt write to the console and to their log files. No output of a rank is lost.
class OutputMultiplexer {
 public:
  OutputMultiplexer(Console& console, OutputPlan plan);

  // Ranks are counted from 0 on this host below.

  /// The ends that become a rank's standard output and error.
  struct WritingEnds {
    base::FileDescriptor out, err;
    bool out_is_terminal = false;
  };
  WritingEnds open(int rank);
  /// Reads what is left of a rank that has ended, so that another process can write in its place.
  void close(int rank);

  void wait_for(PollSet& set);
  /// Ends a round: shows prompts that have been unfinished for a while, and passes warnings on.
  void tick();
  /// Reads what is left after all writers are gone or are no longer waited for.
  void drain();
  void settle_live_lines();
  /// Gives the ranks' terminals the new size of the launcher's terminal.
  void resize();
  /// Returns the last lines of a rank's standard error, or of its output if it wrote no errors. Empty where they have just been shown where the
  /// launcher writes its own sentences.
  const std::deque<std::string>& unseen_last_lines(std::size_t rank) const;

 private:
  struct Channel {
    Sink* sink;
    RankLog* log;
    RankStream stream;
    base::FileDescriptor source = {};  // a pipe or a terminal
  };
  /// Reads once. Returns false when there is nothing now or never again.
  bool read_some(Channel& channel);
  void drain(Channel& channel);
  bool may_read(const Channel& channel) const;
  winsize size_of_ranks(const Sink& sink) const;

  Console* console_;
  const OutputPlan plan_;
  std::vector<std::unique_ptr<RankLog>> logs_;
  std::vector<Channel> channels_;  // two for each rank: output, error
  bool warned_ = false;
};

}  // namespace unisono::launcher
