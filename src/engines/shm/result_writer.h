#pragma once

#include <algorithm>
#include <array>

#include "base/processors.h"
#include "engines/shm/pieces.h"

namespace unisono::engines::shm {

/// Returns the bytes of all ranks' outputs from which they are written past the caches. Measured on the machines of bench/results/one-host.md: with
/// a third-level cache of 32 second-level ones, past the caches is slower for 8 of these, and faster from 16 on; with one of 130, slower for 16 and
/// faster for 64.
inline std::size_t streams_from() {
  const std::size_t second = base::second_level_cache();
  return std::clamp(base::third_level_cache() / 4, 16 * second, 32 * second);
}

/// Writes what a rank receives: through the caches, or past them where the outputs of all ranks are much more than these hold. Then a cached store
/// would fetch each line from memory before it overwrites it, and drive the slots, which the ranks read and write all the time, out of the caches.
class ResultWriter {
 public:
  ResultWriter(const CollectiveCall& call, int rank, int ranks, std::size_t streams_from)
      : streams_(call.out.bytes() * static_cast<std::size_t>(ranks) >= streams_from && pays(call, rank, streams_from)) {}

  void copy(void* to, const void* from, std::size_t bytes) const {
    if (!streams_) [[likely]]
      kernels::copy(to, from, bytes);
    else kernels::copy_streaming(to, from, bytes);
  }
  /// The same as engines::shm::combine.
  void combine(void* out, const void* const* inputs, int fan_in, std::size_t count, const CollectiveCall& call, int divisor) const {
    if (!streams_) [[likely]]
      shm::combine(out, inputs, fan_in, count, call, divisor);
    else combine_streaming(out, inputs, fan_in, count, call, divisor);
  }

  bool streams() const { return streams_; }
  /// Combines past the caches; the call has no operation of the user's.
  static void combine_streaming(void* out, const void* const* inputs, int fan_in, std::size_t count, const CollectiveCall& call, int divisor) {
    constexpr std::size_t chunk_bytes = std::size_t{16} << 10;  // stays in the first-level cache with its inputs
    alignas(64) std::array<std::byte, chunk_bytes> chunk;
    const std::size_t element = size_of(call.in.dtype());
    const Pieces pieces(count, chunk_bytes / element);
    InputList at(fan_in);
    for (std::size_t k = 0; count != 0 && k < pieces.count(); ++k) {
      const Range piece = pieces[k];
      for (int r = 0; r < fan_in; ++r) at[r] = static_cast<const std::byte*>(inputs[r]) + piece.begin * element;
      shm::combine(chunk.data(), at.data(), fan_in, piece.size(), call, divisor);
      kernels::copy_streaming(static_cast<std::byte*>(out) + piece.begin * element, chunk.data(), piece.size() * element);
    }
  }

 private:
  // A result that takes the place of an input lies in the caches when it is written.
  static bool pays(const CollectiveCall& call, int rank, std::size_t from) {
    if (call.custom || (call.in.data() == call.out.data() && reduces(call.operation))) return false;
    return traits_of(call.operation).receivers == Participants::all_ranks || (rank == call.root && call.out.bytes() >= from);
  }

  bool streams_;
};

}  // namespace unisono::engines::shm
