#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// Selects the ranks that get standard input.
struct StdinTarget {
  enum class Kind { one, all, none };
  Kind kind = Kind::one;
  int rank = 0;  ///< for Kind::one

  bool includes(int other) const { return kind == Kind::all || (kind == Kind::one && other == rank); }
  /// Reads "all", "none" or a number.
  static std::optional<StdinTarget> parse(std::string_view text);
};

/// Passes standard input to the ranks. One rank simply inherits a file or a pipe. A terminal answers only the foreground process group, and each rank
/// has a group of its own, so typed text is read here and passed on through a pipe. Where all ranks get the input, each has a pipe and gets
/// everything; it is read no faster than the slowest rank takes it.
class StdinPump {
 public:
  explicit StdinPump(StdinTarget target);

  /// Begins an attempt, whose ranks open their inputs anew.
  void begin_attempt();
  /// Returns the descriptor that becomes this rank's standard input.
  base::FileDescriptor open(int rank);
  void wait_for(PollSet& set);
  /// Returns true once after text was typed.
  bool take_typed() noexcept { return std::exchange(typed_, false); }

 private:
  struct Feed {
    base::FileDescriptor pipe;
    std::size_t sent = 0;  ///< how much of pending_
  };
  void read_input();
  void write_to(Feed& feed);
  void forget_sent();

  const StdinTarget target_;
  const bool terminal_;
  bool typed_ = false;
  bool ended_ = false;
  std::vector<Feed> feeds_;
  std::string pending_;
  std::optional<base::Deadline> in_background_;
};

}  // namespace unisono::launcher
