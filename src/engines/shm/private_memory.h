#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

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

/// Reads the private memory of the other ranks of a segment where it lies, by process_vm_readv: the data is copied once, and no rank but the reader
/// has work with it. The system forbids it where a process may not trace the other (Yama's ptrace scope, a filter of system calls, another user), and
/// process numbers mean nothing in another namespace; so every rank tries before the ranks rely on it.
class PrivateMemory {
 public:
  PrivateMemory(Segment& segment, int rank);

  static constexpr std::size_t readable_bytes = std::size_t{64} << 10;  ///< that the others may read for a trial (CopyTrial), the word at the front

  /// Publishes where the word lies that the others look for. No rank may read it before the step in which it was published.
  void publish_card();
  /// Overwrites the memory behind the word, as a program does with its data between two calls.
  void touch(std::byte value) noexcept;
  const std::byte* data() const noexcept { return memory_.data(); }
  /// Returns true where this rank finds the words of all others.
  bool finds_all() const;

 private:
  Segment& segment_;
  int rank_;
  std::vector<std::byte> memory_;
};

/// Returns UNISONO_SINGLE_COPY as a range, from so many KiB on for every kind of call; `by_rule` where it is unset; nullopt for `off`. Throws
/// InvalidArgument for other text.
std::optional<SingleCopyRange> single_copy_range(const base::Environment& environment, const SingleCopyRange& by_rule);

enum class SingleCopyOf { collectives, messages };

/// Returns the rule: from `bytes` on, as the trial has found it, or from what holds without one (0); up to half the second-level cache, 512 KiB at
/// least, for collectives, and eight times that cache for messages.
SingleCopyRange single_copy_rule(SingleCopyOf data, std::size_t bytes = 0);

/// Returns true where reading the others' private memory in a call is faster than staging it.
bool single_copy_pays(const CollectiveCall& call, int ranks, bool is_crowded, const SingleCopyRange& range);

}  // namespace unisono::engines::shm
