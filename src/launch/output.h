#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ground/environment.h"
#include "ground/file_descriptor.h"
#include "launch/poll_set.h"
#include "launch/rank_stream.h"
#include "launch/supervisor.h"

namespace unisono::launcher {

/// The launcher's own standard output and error: one sink each, or one for both where they are the same file, so that lines stay whole.
class Console {
 public:
  Console(const ground::Environment& environment, Talk talk);

  Sink& out() noexcept { return out_; }
  Sink& err() noexcept { return shared_ ? out_ : err_; }
  /// "[3] ", in a colour of its own where the sink is a terminal and NO_COLOR is not set.
  std::string prefix(int rank, const Sink& sink) const;
  /// A line of the launcher's own on standard error: "[unisono] …". Nothing where it is to be silent.
  void say(std::string_view text);
  void flush();
  void wait_for(PollSet& set);
  bool is_empty() { return (out_.is_empty() || out_.broken()) && (err_.is_empty() || err_.broken()); }

 private:
  Sink out_;
  Sink err_;
  bool shared_;
  bool colour_;
  bool silent_;
};

/// Brings what the ranks of one attempt write to the console and to their log files. Nothing that a rank has written is lost.
class OutputMultiplexer {
 public:
  /// An empty `log_directory`: no log files.
  OutputMultiplexer(Console& console, int first_rank, int ranks, const std::string& log_directory, int attempt);

  // Ranks are counted from 0 in what follows.

  /// The ends that become a rank's standard output and error.
  struct WritingEnds {
    ground::FileDescriptor out, err;
  };
  WritingEnds open(int rank);

  void wait_for(PollSet& set);
  /// After a round: shows prompts that have rested, passes warnings on.
  void tick();
  /// All writers are gone, or will not be waited for: reads what the pipes still hold.
  void drain();
  /// True when no rank (nor anybody it started) holds its output open any more.
  bool all_closed() const;
  void settle_live_lines();
  /// Descriptors of the launcher that a child which does not exec has to close.
  std::vector<int> descriptors() const;
  const std::deque<std::string>& tail_of_error(std::size_t rank) const { return channels_[2 * rank + 1].stream.tail(); }
  const std::deque<std::string>& tail_of_output(std::size_t rank) const { return channels_[2 * rank].stream.tail(); }

 private:
  struct Channel {
    Sink* sink;
    RankLog* log;
    RankStream stream;
    ground::FileDescriptor pipe = {};
  };
  /// Reads once; false when there is nothing now or never again.
  bool read_some(Channel& channel);
  bool may_read(const Channel& channel) const;

  Console* console_;
  std::vector<std::unique_ptr<RankLog>> logs_;
  std::vector<Channel> channels_;  // two a rank: output, error
  bool warned_ = false;
};

}  // namespace unisono::launcher
