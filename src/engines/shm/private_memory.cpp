#include "engines/shm/private_memory.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "base/processors.h"
#include "base/socket.h"
#include "unisono/error.h"
#include "unisono/failure.h"

namespace unisono::engines::shm {
namespace {

constexpr const char* single_copy_variable = "UNISONO_SINGLE_COPY";

/// Copies from the memory of a process. Returns 0, or the error number of the system.
int read_process(pid_t pid, void* to, std::uint64_t address, std::size_t bytes) noexcept {
  auto* target = static_cast<std::byte*>(to);
  while (bytes != 0) {
    iovec here{target, bytes};
    iovec there{reinterpret_cast<void*>(address), bytes};  // NOLINT(performance-no-int-to-ptr): an address of the other process
    const ssize_t n = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EFAULT;
    target += n;
    address += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

/// A slot that stays in the second-level cache of the core that fills it is slow to read for another core, which has to fetch each line from there.
/// Where a call has more data it drives the slots out into a cache that both share, or to memory, and the two copies of the slots, which overlap, are
/// faster than the system's one: on the machine of docs/design/performance.md from half that cache on, 512 KiB.
std::size_t largest_of_collectives() { return std::max(std::size_t{512} << 10, std::bit_floor(base::second_level_cache() / 2)); }

/// A ring is small and stays in the cache. Where a message is much more, its way through memory sets the time.
std::size_t largest_of_messages() {
  constexpr std::size_t caches = 8;
  return caches * base::second_level_cache();
}

struct BlockBytes {
  std::size_t one = 0, all = 0;
};

/// Returns the bytes of a rank's block in a call, and of all of them. Of blocks of different length that have any it is the average, since the time
/// that a call of the system costs beside the copying does not depend on the length.
BlockBytes block_bytes(const CollectiveCall& call, std::size_t ranks) {
  const std::size_t element = size_of(call.in.dtype());
  if (!has_counts(call.operation)) {
    const std::size_t block = call.count * element;
    return {block, traits_of(call.operation).in == Layout::whole ? block : block * ranks};
  }
  const std::size_t all = call.counts.total() * element;
  const auto blocks = std::ranges::count_if(call.counts.span(), [](std::size_t count) { return count != 0; });
  return {all / std::max<std::size_t>(static_cast<std::size_t>(blocks), 1), all};
}

std::uint32_t kibibytes(std::size_t bytes) { return static_cast<std::uint32_t>(bytes >> 10); }

}  // namespace

PrivateMemory::PrivateMemory(Segment& segment, int rank) : segment_(segment), rank_(rank) {}

void PrivateMemory::publish_card() {
  if (!memory_.empty()) return;
  std::random_device random;
  const std::uint64_t word = std::uint64_t{random()} << 32 | random();
  memory_.resize(rank_ == 0 ? readable_bytes : sizeof word);
  std::memcpy(memory_.data(), &word, sizeof word);
  segment_.member(rank_).private_memory = {reinterpret_cast<std::uintptr_t>(memory_.data()), word};
}

void PrivateMemory::touch(std::byte value) noexcept { std::fill(memory_.begin() + sizeof(std::uint64_t), memory_.end(), value); }

bool PrivateMemory::finds_all() const {
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (!finds(segment_, r, segment_.member(r).private_memory)) return false;
  }
  return true;
}

int read_memory(const Segment& segment, int rank, void* to, std::uint64_t address, std::size_t bytes) noexcept {
  const pid_t pid = segment.member(rank).pid.load(std::memory_order_relaxed);
  // The memory of a thread's rank is read in the same way: where the rank gives up the call and frees it, the read fails and the process lives on.
  return read_process(pid != 0 ? pid : ::getpid(), to, address, bytes);
}

bool may_be_read() noexcept {
  const int is_dumpable = ::prctl(PR_GET_DUMPABLE);
  return is_dumpable == 1 || is_dumpable < 0;
}

bool finds(const Segment& segment, int rank, const PrivateCard& card) noexcept {
  std::uint64_t word = 0;
  return read_memory(segment, rank, &word, card.address, sizeof word) == 0 && word == card.word;
}

void throw_unreadable(const Segment& segment, int reader, int rank, int error, std::string_view when) {
  const int name = segment.name_of(rank);
  throw GroupFailure({.kind = Failure::Kind::peer_failed,
                      .cause = PeerFailed::aborted,
                      .culprit = name,
                      .missing = {},
                      .message = fmt::format("rank {}: the buffer of rank {} cannot be read where it was when {}: {}", segment.name_of(reader), name,
                                             when, base::error_text(error))});
}

std::optional<SingleCopyRange> single_copy_range(const base::Environment& environment, const SingleCopyRange& by_rule) {
  const auto text = environment.get(single_copy_variable);
  if (!text) return by_rule;
  if (*text == "off") return std::nullopt;
  const int from = *environment.get_int(single_copy_variable);
  if (from < 0) throw InvalidArgument(fmt::format("environment variable {} is negative: {}", single_copy_variable, from));
  return SingleCopyRange{static_cast<std::uint32_t>(from), 0};
}

SingleCopyRange single_copy_rule(SingleCopyOf data, std::size_t bytes) {
  const bool is_collective = data == SingleCopyOf::collectives;
  const std::uint32_t without_trial = is_collective ? 32 : 16;  // a message is one block, and its rank makes one copy
  return {bytes == 0 ? without_trial : kibibytes(bytes), kibibytes(is_collective ? largest_of_collectives() : largest_of_messages())};
}

// Where ranks outnumber processors, a rank that reads by itself saves nothing: the copies of all ranks take the same processors one after the other,
// and the slots stay in their caches. A scatter is different, since the root alone fills the slots for all.
bool single_copy_pays(const CollectiveCall& call, int ranks, bool is_crowded, const SingleCopyRange& range) {
  const BlockBytes bytes = block_bytes(call, static_cast<std::size_t>(ranks));
  if (bytes.one < std::size_t{range.from} << 10) return false;
  if (range.up_to == 0) return true;
  const OperationTraits& traits = traits_of(call.operation);
  if (traits.reduces && traits.out == Layout::whole) return false;  // the ranks combine out of the slots while these are filled
  if (traits.senders == Participants::root && traits.in == Layout::blocks) return true;
  return !is_crowded && bytes.all < std::size_t{range.up_to} << 10;
}

}  // namespace unisono::engines::shm
