#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "hosts/frames.h"
#include "hosts/host_list.h"
#include "launch/output/output.h"
#include "launch/process/poll_set.h"
#include "launch/process/stdin_pump.h"
#include "launch/view/status_line.h"

namespace unisono::tools {

/// Puts together what the launchers of all hosts say of their ranks, for one status line.
class HostStates {
 public:
  explicit HostStates(std::size_t hosts) : hosts_(hosts) {}

  /// `text`: as StatusLine tells it; empty: the ranks there do not run.
  void take(std::size_t host, std::string_view text);
  /// Returns the line in at most so many columns; empty where ranks run on no host. `elapsed`: since the job began.
  std::string line(std::chrono::nanoseconds elapsed, std::size_t columns) const;

 private:
  struct Host {
    int restarts = 0;
    launcher::StatusTexts texts = {};
  };
  /// Returns the rank that is late for longest, before those that wait themselves. `each`: the states of all ranks.
  launcher::LateRank latest(const std::string& each) const;

  std::vector<Host> hosts_;
};

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

/// Passes standard input on to the hosts whose ranks get it, no faster than the slowest of them takes it.
class HostInput {
 public:
  using Send = std::function<void(std::size_t host, FrameKind kind, std::string_view bytes)>;

  HostInput(launcher::StdinTarget target, const std::vector<HostEntry>& hosts);

  void begin();
  /// Reads what there is now and hands it to `send`, with the end of the input where it has come.
  void pass(const Send& send);
  void wait_for(launcher::PollSet& set);
  /// The host's launcher has taken so many bytes.
  void note_taken(std::size_t host, std::size_t bytes);
  /// The host's launcher has ended.
  void note_end(std::size_t host) { hosts_[host].has_ended = true; }

 private:
  struct Host {
    bool gets_input = false, has_ended = false;
    std::size_t on_the_way = 0;  ///< bytes
  };
  bool may_send() const;

  launcher::StdinPump pump_;
  base::FileDescriptor input_;
  std::vector<Host> hosts_;
};

}  // namespace unisono::tools
