#pragma once

#include <atomic>
#include <cerrno>

#include "engines/shm/lockstep.h"

namespace unisono::engines::shm {

/// Reads the buffers of other ranks where they lie, for one task. What was read is valid only if the task finds after that that the reader holds.
class PeerReader {
 public:
  explicit PeerReader(Lockstep& engine) : engine_(engine) {}

  /// Copies what begins `at` bytes behind the beginning of a rank's buffer into the result.
  void copy(const ResultWriter& result, std::byte* to, int r, const Source& source, std::size_t at, std::size_t bytes) {
    if (source.mapped != nullptr) result.copy(to, source.mapped + at, bytes);
    else read(r, to, source.address + at, bytes);
  }
  /// Reads a rank's private memory. If it cannot, the rank has ended, which whoever waits for the task will find, or its memory is not there.
  bool read(int r, std::byte* to, std::uint64_t address, std::size_t bytes) {
    if (is_stuck_ || bytes == 0) return !is_stuck_;
    const int error = engine_.direct().private_memory().read(r, to, address, bytes);
    if (error == 0) return true;
    is_stuck_ = true;
    if (error != ESRCH) engine_.direct().cannot_read(r, error);
    return false;
  }
  /// A rank that gives up a call records the failure first, and may then use its memory for other data at once. So the data read is valid if there is
  /// no failure yet. Once this rank has published that, the call cannot fail for it any more.
  bool holds() const {
    if (is_stuck_) return false;
#if !defined(__SANITIZE_THREAD__)                         // the thread sanitizer does not support fences
    std::atomic_thread_fence(std::memory_order_acquire);  // litmus: failure-read-fence. The data was read before the failure is looked up
#endif
    return engine_.segment().failure().state.load(std::memory_order_acquire) == 0;  // litmus: failure-none
  }

 private:
  Lockstep& engine_;
  bool is_stuck_ = false;  // a rank's memory could not be read
};

}  // namespace unisono::engines::shm
