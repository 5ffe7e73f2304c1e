#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ground/deadline.h"
#include "unisono/backend.h"

namespace unisono::group {

class Group;

/// Between two looks for failures and deadlines, and the longest sleep without one.
inline constexpr std::chrono::milliseconds look_period{20};
/// The longest sleep while one waits for something that rings no bell.
inline constexpr std::chrono::microseconds unrung_period{100};

/// What somebody who waits for a task keeps an eye on, be it the caller or the progress thread.
struct Vigil {
  std::string_view operation;
  std::uint64_t sequence;
  const ground::Deadline& deadline;
  bool& warned;  // that it takes long

  /// A peer that is gone, or the deadline that has passed. Says once, after 30 s, whom one waits for. Makes system calls.
  std::optional<Failure> look(Group& group, const Task& task) const;
};

}  // namespace unisono::group
