#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/environment.h"
#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Copies from the private memory of a rank. Returns 0, or the error number of the system: ESRCH where the process is gone, EFAULT where the memory
/// is.
int read_memory(const Segment& segment, int rank, void* to, std::uint64_t address, std::size_t bytes) noexcept;

/// Returns false where the system lets no process without privileges read the memory of this one, as after prctl(PR_SET_DUMPABLE, 0) and after a
/// change of the user. A rank asks before it relies on the others to read its buffer, since it may have become such a process amid the job.
bool may_be_read() noexcept;

/// Returns true where the word of the card is found in the memory of a rank.
bool finds(const Segment& segment, int rank, const PrivateCard& card) noexcept;

/// Throws GroupFailure, with the reason of the system: the memory of `rank`, which lives, cannot be read by `reader`. `when`: in the past.
[[noreturn]] void throw_unreadable(const Segment& segment, int reader, int rank, int error, std::string_view when);

/// Sizes of messages whose memory the receiver reads, in KiB.
struct SingleCopyRange {
  std::uint32_t from = 0;
  std::uint32_t up_to = 0;  // a message is less; 0: every message, however large
};

/// Returns UNISONO_SINGLE_COPY as a range, from so many KiB on; `by_rule` where it is unset; nullopt for `off`. Throws
/// InvalidArgument for other text.
std::optional<SingleCopyRange> single_copy_range(const base::Environment& environment, const SingleCopyRange& by_rule);

/// Returns the rule: from 16 KiB on, up to eight times the second-level cache.
SingleCopyRange single_copy_rule();

}  // namespace unisono::engines::shm
