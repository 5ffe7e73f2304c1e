#include "engines/shm/private_memory.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

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

/// If a message is much more than the caches hold, its way through memory sets the time.
std::size_t largest_message() {
  constexpr std::size_t caches = 8;
  return caches * base::second_level_cache();
}

}  // namespace

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

SingleCopyRange single_copy_rule() { return {.from = 16, .up_to = static_cast<std::uint32_t>(largest_message() >> 10)}; }

}  // namespace unisono::engines::shm
