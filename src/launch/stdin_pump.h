#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "launch/poll_set.h"

namespace unisono::launcher {

/// Which ranks get standard input.
struct StdinTarget {
  enum class Kind { one, all, none };
  Kind kind = Kind::one;
  int rank = 0;  ///< of kind one

  bool includes(int other) const { return kind == Kind::all || (kind == Kind::one && other == rank); }
  /// From "all", "none" or a number.
  static std::optional<StdinTarget> parse(std::string_view text);
};

/// Standard input on its way to the ranks. Where one rank gets a file or a pipe, it simply inherits it. A terminal answers only the foreground
/// process group, and a rank has a group of its own; so what is typed is read here and handed on through a pipe. Where all ranks get it, each has
/// a pipe, and everything is written to each of them; it is read no faster than the slowest of them takes it.
class StdinPump {
 public:
  explicit StdinPump(StdinTarget target);

  /// The ranks of a new attempt will ask for theirs.
  void begin_attempt();
  /// What becomes this rank's standard input.
  base::FileDescriptor open(int rank);
  void wait_for(PollSet& set);
  /// True once after something was typed.
  bool take_typed() noexcept { return std::exchange(typed_, false); }
  /// Descriptors of the launcher that a child which does not exec has to close.
  std::vector<int> descriptors() const;

 private:
  struct Feed {
    base::FileDescriptor pipe;
    std::size_t sent = 0;  ///< of pending_
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
