#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engines/shm/private_memory.h"
#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Finds from which size on it is faster that a rank reads another one's private memory than that the data goes by way of a slot. Ranks 0 and 1 of a
/// segment hand each other blocks of two sizes in both ways, five times each, within the first large call; the times are taken as linear in the
/// size. That takes a fifth of a millisecond. What the other rank does not answer in time is given up.
class CopyTrial {
 public:
  static constexpr std::size_t most_bytes = PrivateMemory::readable_bytes;  ///< of a block
  /// The result lies between these.
  static constexpr std::size_t smallest_size = std::size_t{8} << 10, largest_size = std::size_t{1} << 20;

  /// `free_step`: one whose inbox nobody uses now. `number`: of the trials of these two ranks.
  CopyTrial(Segment& segment, PrivateMemory& memory, std::uint32_t free_step, std::uint32_t number = 0);

  /// The parts of ranks 0 and 1, in the same step of the lockstep.
  /// Returns the size; nullopt where this process could not find out. The result is kept for all groups of the process.
  static std::optional<std::size_t> known();
  /// `repeat`: the size is measured again where it is known.
  enum class Repeat { no, yes };
  std::optional<std::size_t> lead(Repeat repeat = Repeat::no);
  void follow();

 private:
  struct Times {
    double slot = 0, read = 0;  // ns
  };
  std::optional<Times> times_of(std::size_t bytes);
  /// Makes the next turn; returns its time.
  std::optional<double> turn(std::size_t bytes, bool by_slot);
  std::byte* slot() const { return segment_.inbox(0, free_step_); }

  Segment& segment_;
  PrivateMemory& memory_;
  std::uint32_t free_step_;
  std::uint32_t turn_;  // the last one
  std::uint32_t end_;   // the number that says that there is no further one
};

/// Returns where two lines cross: from which size on the second is below the first; nullopt where it never is. `small` and `large`: times at two
/// sizes.
std::optional<std::size_t> crossing(std::size_t small_bytes, double small_first, double small_second, std::size_t large_bytes, double large_first,
                                    double large_second);

}  // namespace unisono::engines::shm
