#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engines/shm/segment.h"
#include "engines/shm/staging.h"
#include "kernels/copy.h"

// How messages lie in a ring, and what their envelopes say.

namespace unisono::engines::shm {

/// Returns how many bytes are copied before the other side may see them. Each time that bytes written past the caches are published costs more.
inline std::size_t stride() {
  constexpr std::size_t cached = std::size_t{8} << 10, past_caches = std::size_t{32} << 10;
  return Staging::is_past_caches(past_caches) ? past_caches : cached;
}
inline constexpr std::uint64_t ring_alignment = cache_line;  // of the elements of every message in a ring
constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + ring_alignment - 1) & ~(ring_alignment - 1); }
/// Returns the bytes of a ring that a message takes.
constexpr std::uint64_t in_ring(std::uint64_t bytes) { return bytes <= Envelope::room ? 0 : padded(bytes); }

// The marks of an envelope, with the place of a lent message's word above them.
inline constexpr std::uint32_t asks_mark = 1;   // the receiver may try whether it can read the sender's memory
inline constexpr std::uint32_t lent_mark = 2;   // the elements lie at the sender
inline constexpr std::uint32_t whole_mark = 4;  // all elements are in the ring
inline constexpr int place_shift = 8;

// Copies between a ring and plain memory, at a position that wraps.
inline void into_ring(std::byte* ring, std::size_t capacity, std::uint64_t position, const void* from, std::size_t bytes) {
  const std::size_t at = position % capacity;
  const std::size_t first = std::min(bytes, capacity - at);
  Staging::copy(ring + at, from, first);
  Staging::copy(ring, static_cast<const std::byte*>(from) + first, bytes - first);
}
inline void out_of_ring(void* to, const std::byte* ring, std::size_t capacity, std::uint64_t position, std::size_t bytes) {
  const std::size_t at = position % capacity;
  const std::size_t first = std::min(bytes, capacity - at);
  kernels::copy(to, ring + at, first);
  kernels::copy(static_cast<std::byte*>(to) + first, ring, bytes - first);
}

/// The bits of the places that have memory in the segment.
inline constexpr std::uint64_t places_with_memory = (std::uint64_t{1} << RingControl::backed) - 1;

}  // namespace unisono::engines::shm
