#pragma once

#include <optional>
#include <string>

#include "ground/deadline.h"
#include "ground/file_descriptor.h"
#include "launch/poll_set.h"

namespace unisono::launcher {

/// Standard input, which goes to rank 0. A file or a pipe is simply inherited. A terminal is not: it answers only the foreground process group,
/// and a rank has a group of its own; so what is typed is read here and handed on through a pipe.
class StdinPump {
 public:
  StdinPump();

  /// What becomes rank 0's standard input, once an attempt.
  ground::FileDescriptor open();
  void wait_for(PollSet& set);
  /// True once after something was typed.
  bool take_typed() noexcept { return std::exchange(typed_, false); }
  /// Descriptor of the launcher that a child which does not exec has to close; -1: none.
  int descriptor() const noexcept { return pipe_.get(); }

 private:
  void read_terminal();
  void write_pipe();

  bool terminal_;
  bool typed_ = false;
  ground::FileDescriptor pipe_;
  std::string pending_;
  std::optional<ground::Deadline> in_background_;
};

}  // namespace unisono::launcher
