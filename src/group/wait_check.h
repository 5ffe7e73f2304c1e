#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/deadline.h"
#include "unisono/engine.h"

namespace unisono::group {

class Group;

/// Between two looks for failures and deadlines, and the longest sleep without one.
inline constexpr std::chrono::milliseconds look_period{20};
/// The longest sleep while the caller waits for something of which no notifier is notified.
inline constexpr std::chrono::microseconds unnotified_period{100};

/// What somebody who waits for a task keeps an eye on, be it the caller or the progress thread.
struct WaitCheck {
  std::string_view operation;
  std::uint64_t sequence;
  const base::Deadline& deadline;
  bool& warned;  // that it takes long

  /// A peer that is gone, or the deadline that has passed. Says once, after 30 s, whom one waits for. Makes system calls.
  std::optional<Failure> look(Group& group, const Task& task) const;
};

}  // namespace unisono::group
