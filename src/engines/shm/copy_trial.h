#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Finds how a slot is written faster, through the caches or past them (Staging). Rank 0 of a segment hands rank 1 blocks of two sizes in both
/// ways, five times each, within the first step of a call. That takes 0.1 to 0.3 ms. A trial in which the other rank does not answer in time is given
/// up.
class CopyTrial {
 public:
  static constexpr std::size_t most_bytes = std::size_t{64} << 10;  ///< of a block

  /// `free_step`: one whose results nobody writes or reads now. `number`: of the trials of this segment.
  CopyTrial(Segment& segment, std::uint32_t free_step, std::uint32_t number = 0);

  /// The part of rank 0. Returns true if a slot is written faster past the caches; nullopt if the trial was given up.
  std::optional<bool> lead();
  /// The part of rank 1, in the same step of the lockstep. Returns what rank 0 has found.
  std::optional<bool> follow();

 private:
  enum class Method { cached, streamed };  // of handing a block over
  static constexpr std::uint32_t methods = 2;
  static constexpr Method method_of(std::uint32_t turn) { return static_cast<Method>((turn - 1) % methods); }
  using Times = std::array<double, methods>;  // ns
  std::optional<Times> times_of(std::size_t bytes);
  /// Makes the next turn; returns its time.
  std::optional<double> turn(const std::byte* block, std::size_t bytes);
  /// Rank 1 may have given the trial up and be in the next step, so the slot is one that rank 0 alone fills.
  std::byte* slot() const { return segment_.result(0, free_step_); }
  /// Copies what rank 0 has put into the slot in this turn. Returns false where it has given that up.
  bool copy_slot(std::uint32_t turn, std::byte* to);
  std::optional<bool> found();

  Segment& segment_;
  std::uint32_t free_step_;
  std::uint32_t number_;  // of this trial, from 1 on
  std::uint32_t turn_;    // the last one
  std::uint32_t end_;     // the number that says that there is no further one
};

}  // namespace unisono::engines::shm
