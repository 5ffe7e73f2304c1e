#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/environment.h"

namespace unisono::engines::shm {

inline constexpr std::size_t smallest_slot = std::size_t{128} << 10, largest_slot = std::size_t{1} << 20;

/// Returns the bytes of a slot in a segment of so many ranks. The slots of all ranks take at most 16 MiB where that leaves each the smallest size;
/// memory that no step uses is never touched.
constexpr std::size_t slot_bytes_for(int ranks) {
  constexpr std::size_t slots_per_rank = 4, all_slots = std::size_t{16} << 20;
  return std::clamp(std::bit_floor(all_slots / slots_per_rank / static_cast<std::size_t>(std::max(ranks, 1))), smallest_slot, largest_slot);
}

/// Returns UNISONO_STEP_SIZE, in KiB; 0 where it is unset. Throws InvalidArgument where it is no whole number of KiB from 4 to 1024.
std::uint32_t asked_step_kib(const base::Environment& environment);

/// Returns how many bytes of a slot a step of a collective fills, the same on every rank: `asked_kib`, which is what rank 0 was asked for, or the
/// size by rule. Ranks with a processor each fill one slot while they empty another, so a step shall be short; ranks that share processors lose a
/// change of tasks with every step, so it shall be long.
std::size_t step_bytes(std::size_t slot, std::uint32_t asked_kib, bool is_crowded);

}  // namespace unisono::engines::shm
