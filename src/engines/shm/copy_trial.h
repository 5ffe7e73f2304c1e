#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Finds how a slot is written faster, through the caches or past them (Staging). Rank 0 of a segment hands rank 1 blocks within the first step of a
/// call. They go round in a slot, as those of large calls do: twice in each way, and the second round counts. That takes 0.2 to 0.4 ms. A trial in
/// which the other rank does not answer in time is given up.
class CopyTrial {
 public:
  static constexpr std::size_t block_bytes = std::size_t{64} << 10;

  /// `free_step`: one whose results nobody writes or reads now. `number`: of the trials of this segment.
  CopyTrial(Segment& segment, std::uint32_t free_step, std::uint32_t number = 0);

  /// The part of rank 0. Returns true if a slot is written faster past the caches; nullopt if the trial was given up.
  std::optional<bool> lead();
  /// The part of rank 1, in the same step of the lockstep. Returns what rank 0 has found.
  std::optional<bool> follow();

 private:
  enum class Method { cached, streamed };  // of handing a block over
  /// Returns the median time of a method's second round, in ns.
  std::optional<double> time_of(Method method);
  /// Makes the next turn; returns its time.
  std::optional<double> turn(Method method, const std::byte* block);
  std::uint32_t places() const;
  /// Returns where the block of this turn lies. Rank 1 may have given the trial up and be in the next step, so the slot is one that rank 0 alone
  /// fills.
  std::byte* place_of(std::uint32_t turn) const;
  /// Copies what rank 0 has put there in this turn. Returns false where it has given that up.
  bool copy_block(std::uint32_t turn, std::byte* to);
  std::optional<bool> found();

  Segment& segment_;
  std::uint32_t free_step_;
  std::uint32_t number_;  // of this trial, from 1 on
  std::uint32_t turn_;    // the last one
  std::uint32_t end_;     // the number that says that there is no further one
};

}  // namespace unisono::engines::shm
