#pragma once

#include <cstddef>

namespace unisono::testing {

/// Lets this process be killed by one of its own writes to memory: a write between which and the one before it no call of the system lies cannot be
/// hit from outside. The pages are made read-only; a write elsewhere in them is let through, one instruction at a time.
///
/// The `nth` write (from 1) that begins within [begin, begin + bytes) is not carried out, and the process ends by SIGKILL. Once in a process.
void die_at_write(const std::byte* begin, std::size_t bytes, int nth);

/// False where the processor has no single step that a process may take by itself.
bool has_store_traps();

/// The memory that this process shares with the other ranks of this host; null where there is none. Announcements of calls and the record of calls
/// are memory of other names.
struct SharedRange {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};
SharedRange find_segment(std::size_t bytes);

}  // namespace unisono::testing
