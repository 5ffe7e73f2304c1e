#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "base/deadline.h"

namespace unisono::launcher {

/// Finds the launchers that have been silent for too long. Only time counts in which this process itself was running: after it was stopped, or the
/// whole machine was, what the others have said meanwhile has not been read yet.
class SilenceWatch {
 public:
  /// `silence`: a launcher that says nothing new for longer is silent. `longest_gap`: so much time at most counts between two looks.
  SilenceWatch(std::chrono::nanoseconds silence, std::chrono::nanoseconds longest_gap) : silence_(silence), longest_gap_(longest_gap) {}

  /// Begins a look at all launchers.
  void look(base::Clock::time_point now = base::Clock::now());
  /// Notes what the launcher of that host has said last. Returns true where it is silent.
  bool is_silent(int host, std::string_view said);

 private:
  struct Heard {
    std::string said;
    std::chrono::nanoseconds silent{};
  };
  const std::chrono::nanoseconds silence_, longest_gap_;
  base::Clock::time_point looked_{};
  std::chrono::nanoseconds gap_{};  // between the last two looks, as far as it counts
  std::map<int, Heard> heard_;
};

}  // namespace unisono::launcher
