#pragma once

#include <cstdint>
#include <optional>

#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Finds whether the cores of ranks 0 and 1 of a segment are near each other, which decides how slots are written (Staging). Within the first step of
/// a call rank 0 stores a number into a line of its own, and rank 1 answers with the same number in another line, again and again. That takes some
/// 10 µs. A trial in which the other rank does not answer in time is given up.
class DistanceTrial {
 public:
  /// `number`: of the trials of this segment, counted from 0.
  explicit DistanceTrial(Segment& segment, std::uint32_t number = 0);

  /// The part of rank 0. Returns true if the cores are distant; nullopt if the trial was given up.
  std::optional<bool> lead();
  /// The part of rank 1, in the same step of the lockstep. Returns what rank 0 has found.
  std::optional<bool> follow();

 private:
  std::optional<bool> found();

  Segment& segment_;
  std::uint32_t number_;  // of this trial, from 1 on
  std::uint32_t turn_;    // the last one
  std::uint32_t end_;     // the number that says that there is no further one
};

}  // namespace unisono::engines::shm
