#pragma once

#include <cstddef>
#include <cstdint>

namespace unisono::base {

/// The eager limit: a message of at most so many bytes leaves its sender before its receive is posted. Every carrier needs the same limit: a group
/// lets a send return at this size, so a channel must copy what it cannot send yet, and a connection must take it as one frame. Larger messages wait
/// for the receive, and then go without a copy. At 64 KiB a copy costs a few microseconds, less than asking another host.
inline constexpr std::size_t eager_bytes = std::size_t{64} << 10;

/// The channel of the collectives between two ranks.
inline constexpr std::uint32_t collective_channel = 0;

}  // namespace unisono::base
