#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace unisono::tools
