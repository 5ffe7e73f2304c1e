#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engines/shm/copy_trial.h"
#include "engines/shm/private_memory.h"
#include "engines/shm/reached_pools.h"
#include "engines/shm/result_writer.h"
#include "engines/shm/segment.h"
#include "engines/shm/staging.h"
#include "unisono/call.h"

namespace unisono::engines::shm {

/// Decides whether the ranks reach each other's buffers of a call where they lie, so that nothing is staged. Every rank announces where its own are
/// beside the first step of each large call, and what it reaches, and all draw the same conclusions:
///   Buffers in the shared pools of the processes: after an ordinary call whose buffers all lie there the ranks map each other's pools, and report
///   this in their next announcement. After a call in which all have reported it the next large call begins with an announcement alone: it is
///   expected to be direct. Where its buffers do not all lie in pools, the next one is not expected to be.
///   Private buffers: after the first large call each rank tries whether it can read the memory of all others, and reports this, and rank 0 from
///   which size on that is faster, if the trial of its process has shown it (CopyTrial). From then on calls for which one copy by the system is
///   faster than two by way of the slots (single_copy_pays) begin with an announcement alone as well.
/// A call that begins so and cannot be direct is carried out as an ordinary one after that step.
class DirectAccess {
 public:
  /// `is_crowded`: there are more ranks than processors.
  DirectAccess(Segment& segment, int rank, bool is_crowded)
      : segment_(segment), rank_(rank), is_crowded_(is_crowded), private_(segment, rank), pools_(segment, rank) {}

  /// Returns true where calls of this kind and size are announced: on all ranks alike, but for all_to_all_v.
  bool suits(const CollectiveCall& call) const;
  /// Returns true where the next large call is expected to have all of its buffers in pools.
  bool expected() const { return pools_.expected(); }
  /// Returns true where a call begins with an announcement alone.
  bool begins(const CollectiveCall& call) const { return call.operation != Operation::all_to_all_v && suits(call) && (expected() || reads(call)); }
  /// Returns true where the others read what this rank gives them in an all_to_all_v where it lies.
  bool leaves_in_buffer(const CollectiveCall& call) const;
  Announcement announce(const CollectiveCall& call);
  /// Called after a step in which every rank may have announced. Does nothing where one has not.
  void note(std::uint32_t step);
  /// Called in a call that began with an announcement alone; returns true where it is direct.
  bool agreed(std::uint32_t step, const CollectiveCall& call) const { return pools_.reach_all(step) || (reads(call) && all_read(step)); }

  Source in(int rank, std::uint32_t step) const { return pools_.source(rank, step, segment_.line(rank, step).announcement().in); }
  Source out(int rank, std::uint32_t step) const { return pools_.source(rank, step, segment_.line(rank, step).announcement().out); }
  const Segment& segment() const { return segment_; }
  /// Returns memory for pieces of the others' inputs, which lasts until the next call with a larger size.
  std::byte* scratch(std::size_t bytes);
  /// Throws GroupFailure, with the reason of the system: the memory of a rank that lives cannot be read.
  [[noreturn]] void cannot_read(int rank, int error) const;

 private:
  static constexpr std::size_t least_bytes = std::size_t{4} << 10;  // a smaller call gains nothing by it
  static constexpr std::uint32_t most_trials = 3;                   // until one is not given up

  bool reads(const CollectiveCall& call) const { return range_ && single_copy_pays(call, segment_.ranks(), is_crowded_, *range_); }
  bool all_read(std::uint32_t step) const;
  /// Returns true where rank 0 makes the trial in the next step.
  bool makes_trial() const {
    return rank_ == 0 && !found_ && trials_ < most_trials && segment_.ranks() > 1 && segment_.slot_bytes() >= CopyTrial::most_bytes;
  }
  /// Returns true where this rank is rank 0's partner in a trial of this step, unless another one is sooner.
  bool takes_part(std::uint32_t step) const;
  /// Finds out what this rank announces of its reach from now on; `tries`: by a trial.
  void find_range(std::uint32_t step, bool tries);

  Segment& segment_;
  int rank_;
  bool is_crowded_;
  PrivateMemory private_;
  ReachedPools pools_;
  bool tried_to_read_ = false, reads_all_ = false;
  std::optional<CopyTrial::Found> found_ = CopyTrial::known();  // of rank 0
  std::optional<SingleCopyRange> own_range_, range_;            // what this rank announces; what holds, where all can read
  std::vector<std::byte> scratch_;
  std::uint32_t trials_ = 0;
};

/// Reads the buffers of other ranks where they lie, for one task. What was read is valid only if the task finds after that that the reader holds.
class PeerReader {
 public:
  explicit PeerReader(const DirectAccess& access) : access_(access) {}

  /// Copies what begins `at` bytes behind the beginning of a rank's buffer into the result.
  void copy(const ResultWriter& result, std::byte* to, int r, const Source& source, std::size_t at, std::size_t bytes) {
    if (source.mapped != nullptr) result.copy(to, source.mapped + at, bytes);
    else read(r, to, source.address + at, bytes);
  }
  /// Reads a rank's private memory. If it cannot, the rank has ended, which whoever waits for the task will find, or its memory is not there.
  bool read(int r, std::byte* to, std::uint64_t address, std::size_t bytes) {
    if (is_stuck_ || bytes == 0) return !is_stuck_;
    const int error = read_memory(access_.segment(), r, to, address, bytes);
    if (error == 0) return true;
    is_stuck_ = true;
    if (error != ESRCH) access_.cannot_read(r, error);
    return false;
  }
  /// A rank that gives up a call records the failure first, and may then use its memory for other data at once. So the data read is valid if there is
  /// no failure yet. Once this rank has published that, the call cannot fail for it any more.
  bool holds() const {
    if (is_stuck_) return false;
#if !defined(__SANITIZE_THREAD__)                         // the thread sanitizer does not support fences
    std::atomic_thread_fence(std::memory_order_acquire);  // litmus: failure-read-fence. The data was read before the failure is looked up
#endif
    return access_.segment().failure().state.load(std::memory_order_acquire) == 0;  // litmus: failure-none
  }

 private:
  const DirectAccess& access_;
  bool is_stuck_ = false;  // a rank's memory could not be read
};

}  // namespace unisono::engines::shm
