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
/// one's private memory. Ranks 0 and 1 of a segment hand each other blocks of two sizes in the three methods, five times each, within the first large
/// call; the times are taken as linear in the size. That takes 0.2 to 0.5 ms. What the other rank does not answer in time is given up.
class CopyTrial {
 public:
  static constexpr std::size_t most_bytes = PrivateMemory::readable_bytes;  ///< of a block
  struct Found {
    bool past_caches = false;         ///< a slot is written faster past the caches
    std::optional<std::size_t> from;  ///< bytes of a block from which on reading is faster; nullopt: the system does not allow it
    friend bool operator==(const Found&, const Found&) = default;
  };
  /// `from` lies between these.
  static constexpr std::size_t smallest_size = std::size_t{8} << 10, largest_size = std::size_t{1} << 20;

  /// `free_step`: one whose inbox nobody uses now. `number`: of the trials of these two ranks.
  CopyTrial(Segment& segment, PrivateMemory& memory, std::uint32_t free_step, std::uint32_t number = 0);

  /// The parts of ranks 0 and 1, in the same step of the lockstep.
  /// Returns the size; nullopt where this process could not find out. The result is kept for all groups of the process.
  static std::optional<Found> known();
  /// `repeat`: the size is measured again where it is known.
  enum class Repeat { no, yes };
  std::optional<Found> lead(Repeat repeat = Repeat::no);
  void follow();

 private:
  enum class Method { cached, streamed, read };
  static constexpr std::uint32_t methods = 3;
  static constexpr Method method_of(std::uint32_t turn) { return static_cast<Method>((turn - 1) % methods); }
  using Times = std::array<double, methods>;  // ns
  static Found found_of(const Times& small, const Times& large, bool reads);
  std::optional<Times> times_of(std::size_t bytes);
  /// Makes the next turn; returns its time.
  std::optional<double> turn(std::size_t bytes);
  std::byte* slot() const { return segment_.inbox(0, free_step_); }

  Segment& segment_;
  PrivateMemory& memory_;
  std::uint32_t free_step_;
  std::uint32_t turn_;  // the last one
  std::uint32_t end_;   // the number that says that there is no further one
  bool reads_ = true;   // the other rank can read this one's memory
};

/// Returns where two lines cross: from which size on the second is below the first; nullopt where it never is. `small` and `large`: times at two
/// sizes.
std::optional<std::size_t> crossing(std::size_t small_bytes, double small_first, double small_second, std::size_t large_bytes, double large_first,
                                    double large_second);

}  // namespace unisono::engines::shm
