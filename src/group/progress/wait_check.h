#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/deadline.h"
#include "recorder/recorder.h"
#include "unisono/engine.h"

namespace unisono::group {

class GroupErrors;

/// The time between two looks for failures and deadlines, and the longest sleep without one.
inline constexpr std::chrono::milliseconds look_period{20};
/// The longest sleep while something is waited for of which the notifier is not notified.
inline constexpr std::chrono::microseconds unnotified_period{100};

/// The facts about a call that are looked at while its task is waited for, by the caller or by the progress thread.
struct WaitCheck {
  std::string_view operation;
  std::uint64_t sequence;
  const base::Deadline& deadline;
  const recorder::Recorder::Call& record;
  bool& warned;  // the log says already that it takes long

  /// Records which ranks are waited for. Returns the failure of a peer that is gone, or of the deadline that has passed. Logs once, after 30 s, which
  /// ranks are waited for. Makes system calls.
  std::optional<Failure> look(GroupErrors& group, const Task& task) const;
};

}  // namespace unisono::group
