#pragma once

#include <cstdint>

#include "base/deadline.h"
#include "engines/shm/segment.h"
#include "engines/shm/staging.h"

namespace unisono::engines::shm {

/// Keeps the way in which the ranks of a host write slots (Staging) right. Rank 0 tells with the first step of each call which way is faster, or that
/// it and rank 1 find that out in this step, and the others follow.
class StagingChoice {
 public:
  /// `is_crowded`: there are more ranks than processors.
  StagingChoice(Segment& segment, int rank, bool is_crowded) : segment_(segment), rank_(rank), is_crowded_(is_crowded) {}

  /// Returns what this rank tells with the first step of a call. `fills_slots`: by Staging::least_bytes or more in a step.
  StagingWord word(bool fills_slots) {
    if (rank_ != 0) return StagingWord::nothing;
    return is_trial_due(fills_slots) ? StagingWord::trial : Staging::word();
  }
  /// Called after the first step of each call: makes the trial, or follows what rank 0 tells.
  void follow(std::uint32_t step) {
    const StagingWord told = segment_.line(0, step).staging();
    if (told != Staging::word()) [[unlikely]]
      follow(told);
  }

 private:
  /// Returns true in the first call, and then in those that fill slots as often as virtual processors may have moved to other cores.
  bool is_trial_due(bool fills_slots);
  void follow(StagingWord told);
  void make_trial();

  Segment& segment_;
  int rank_;
  bool is_crowded_;
  std::uint32_t trials_ = 0, calls_ = 0;  // calls: in which a trial could be made
  base::Clock::time_point next_trial_{};
};

}  // namespace unisono::engines::shm
