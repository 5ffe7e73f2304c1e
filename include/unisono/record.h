#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/tensor.h"

// The flight recorder: the last calls of this rank.

namespace unisono {

/// A call of this rank.
struct CallRecord {
  /// The stages of a call.
  enum class State {
    queued,   ///< behind other asynchronous calls
    running,  ///< begun
    waiting,  ///< has waited for longer than a few microseconds
    done,
    failed
  };
  using Time = std::chrono::steady_clock::time_point;

  /// The function that the program called: "all_reduce".
  std::string operation = {};
  /// The name of the group.
  std::string group = {};
  /// The place of the call in the program: "train.cpp:57". Empty if it is not known.
  std::string place = {};
  State state = State::running;
  /// The number of the call in its group, from 1.
  std::uint64_t sequence = 0;
  /// The bytes that this rank gives, or takes if it gives none.
  std::uint64_t bytes = 0;
  DType dtype = DType::uint8;
  /// The root, the source or the destination, by its rank in the world.
  std::optional<int> peer = {};
  /// When the call was posted (asynchronous ones), when it began and when it was over. A call of
  /// less than 4 KiB that did not wait has no beginning.
  std::optional<Time> queued = {}, begun = {}, done = {};
  /// The first of the ranks that the call waited for, by its rank in the world, and how many there
  /// were.
  std::optional<int> waited_for = {};
  std::size_t waited_for_count = 0;
};

/// Returns the last calls of this rank, the latest last: at most 1024 of the thread that called
/// `initialize`, and 256 of all others.
///
/// It may be called at any time, by any thread, and after a failure as well. Throws NotInitialized
/// where `rank()` does.
UNISONO_API std::vector<CallRecord> record();

}  // namespace unisono
