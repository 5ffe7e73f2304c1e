#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engines/shm/private_memory.h"
#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Finds how a slot is written faster, through the caches or past them (Staging), and from which size on it is faster still that a rank reads another
/// one's private memory. Rank 0 of a segment hands another rank blocks of two sizes in the three ways, five times each, within a large call; the
/// times are taken as linear in the size. That takes 0.2 to 0.5 ms. A trial in which the other rank does not answer in time is given up.
class CopyTrial {
 public:
  static constexpr std::size_t most_bytes = PrivateMemory::readable_bytes;  ///< of a block
  struct Found {
    bool past_caches = false;  ///< a slot is written faster past the caches
    std::uint32_t from = 0;    ///< bytes of a block from which on reading is faster; 0: the system does not allow it
    friend bool operator==(const Found&, const Found&) = default;
  };
  /// `from` lies between these.
  static constexpr std::uint32_t smallest_size = 8 << 10, largest_size = 1 << 20;

  /// `free_step`: one whose inbox nobody uses now. `number`: of the trials of this segment.
  CopyTrial(Segment& segment, PrivateMemory& memory, std::uint32_t free_step, std::uint32_t number = 0);

  /// Returns what the last trial of this process has found, which holds for all of its groups; nullopt if there was none.
  static std::optional<Found> known();
  /// The part of rank 0. Returns nullopt if the trial was given up.
  std::optional<Found> lead();
  /// The part of another rank, in the same step of the lockstep: the first rank that calls it is the partner, and for any further one it does
  /// nothing.
  void follow(int rank);

 private:
  enum class Method { cached, streamed, read };  // of handing a block over
  static constexpr std::uint32_t methods = 3;
  static constexpr Method method_of(std::uint32_t turn) { return static_cast<Method>((turn - 1) % methods); }
  using Times = std::array<double, methods>;  // ns
  static Found found_of(const Times& small, const Times& large, bool reads);
  std::optional<Times> times_of(std::size_t bytes);
  /// Makes the next turn; returns its time.
  std::optional<double> turn(std::size_t bytes);
  std::byte* slot() const { return segment_.inbox(0, free_step_); }
  /// Copies what rank 0 has put into the slot in this turn. Returns false where it has given that up.
  bool copy_slot(int rank, std::uint32_t turn, std::byte* to);
  /// Returns the rank that takes part; nullopt where none does in time.
  std::optional<int> partner() const;

  Segment& segment_;
  PrivateMemory& memory_;
  std::uint32_t free_step_;
  std::uint32_t invitation_;  // the number of this trial, above the place of a rank
  int partner_ = 0;
  std::uint32_t turn_;  // the last one
  std::uint32_t end_;   // the number that says that there is no further one
  bool reads_ = true;   // the other rank can read this one's memory
};

/// Returns where two lines cross: from which size on the second is below the first; nullopt where it never is. `small` and `large`: times at two
/// sizes.
std::optional<std::size_t> crossing(std::size_t small_bytes, double small_first, double small_second, std::size_t large_bytes, double large_first,
                                    double large_second);

}  // namespace unisono::engines::shm
