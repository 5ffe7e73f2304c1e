#pragma once

#include "base/environment.h"
#include "engines/shm/pieces.h"

namespace unisono::engines::shm {

/// Returns the bytes of all ranks' outputs from which they are written past the caches: UNISONO_STREAM_FROM, or a size by rule where it is unset.
/// Throws InvalidArgument where it is no whole number of KiB.
std::size_t streams_from(const base::Environment& environment);

/// Writes what a rank receives: through the caches, or past them where the outputs of all ranks are much more than these hold. Then a cached store
/// would fetch each line from memory before it overwrites it, and drive the slots, which the ranks read and write all the time, out of the caches.
class ResultWriter {
 public:
  ResultWriter(const CollectiveCall& call, int rank, int ranks, std::size_t streams_from)
      : streams_(call.out.bytes() * static_cast<std::size_t>(ranks) >= streams_from && pays(call, rank, streams_from)) {}

  void copy(void* to, const void* from, std::size_t bytes) const {
    if (!streams_) [[likely]]
      copy_bytes(to, from, bytes);
    else if (bytes != 0 && to != from) kernels::copy_streaming(to, from, bytes);
  }
  /// The same as engines::shm::combine.
  void combine(void* out, const void* const* inputs, int fan_in, std::size_t count, const CollectiveCall& call, int divisor) const {
    if (!streams_) [[likely]]
      shm::combine(out, inputs, fan_in, count, call, divisor);
    else combine_streaming(out, inputs, fan_in, count, call, divisor);
  }

  bool streams() const { return streams_; }
  /// Combines past the caches; the call has no operation of the user's.
  static void combine_streaming(void* out, const void* const* inputs, int fan_in, std::size_t count, const CollectiveCall& call, int divisor);

 private:
  static bool pays(const CollectiveCall& call, int rank, std::size_t from);

  bool streams_;
};

}  // namespace unisono::engines::shm
