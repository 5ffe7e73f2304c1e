#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "hosts/host_states.h"
#include "launch/output/output.h"

namespace unisono::tools {

/// Shows what the launchers of several hosts write as one launcher would: whole lines, and the launchers' own messages once.
class HostOutput {
 public:
  HostOutput(launcher::Console& console, std::size_t hosts, int world_size);

  /// Takes what a host's ranks have written to standard output or standard error, cut anywhere.
  void take(std::size_t host, bool is_error, std::string_view bytes);
  /// Takes a message of a host's launcher (Console).
  void take_message(std::size_t host, std::string_view line);
  /// Shows the lines that have not ended: nothing more comes from this host.
  void finish(std::size_t host);
  /// Shows the launchers' accounts of what has happened, which come last; also that one of them is lost for the others, where that is not known
  /// better.
  void show_accounts(bool with_losses);
  bool may_read() { return !console_->out().is_full() && !console_->err().is_full(); }

 private:
  struct Message {
    std::string how, text;
    launcher::Topic topic = launcher::Topic::other;
  };
  void show_line(bool is_error, std::string line);
  void show(const Message& message);
  void show_held();

  launcher::Console* console_;
  int world_size_;
  std::vector<std::array<std::string, 2>> unfinished_;
  std::vector<Message> held_;
  std::vector<bool> is_restarting_;
  bool has_failed_ = false;
  std::string loss_, logs_;
  HostStates states_;
  const base::Clock::time_point begun_ = base::Clock::now();
};

}  // namespace unisono::tools
