#include "harness/arena.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <ctime>
#include <system_error>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace unisono::bench {

constexpr std::size_t line = 128;  // two cache lines, because processors fetch them in pairs

struct alignas(line) Arena::Header {
  alignas(line) std::atomic<std::uint32_t> arrived;
  alignas(line) std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> failed;
  alignas(line) std::atomic<std::uint32_t> sleepers;
};

struct alignas(line) Arena::Slot {
  std::atomic<std::int64_t> word;
  alignas(line) std::array<Stamp, most_samples + stamps_beyond> stamps;
};

namespace {

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex_sleep(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::milliseconds most) noexcept {
  constexpr std::int64_t in_second = 1000, of_millisecond = 1'000'000;
  const timespec limit{.tv_sec = most.count() / in_second, .tv_nsec = most.count() % in_second * of_millisecond};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept { ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace

double duration_ns(std::span<const Stamp> of_ranks, bool share_processors) noexcept {
  Stamp all = of_ranks.front();
  for (const Stamp& stamp : of_ranks) {
    all.begin = share_processors ? std::min(all.begin, stamp.begin) : std::max(all.begin, stamp.begin);
    all.end = std::max(all.end, stamp.end);
  }
  return static_cast<double>(all.end - all.begin);
}

std::size_t Arena::bytes(int ranks) noexcept { return sizeof(Header) + sizeof(Slot) * static_cast<std::size_t>(ranks); }

Arena::Arena(const std::string& path, int rank, int ranks, bool spin, std::chrono::milliseconds timeout)
    : rank_(rank), ranks_(ranks), spin_(spin), timeout_(timeout) {
  const base::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) throw std::system_error(errno, std::generic_category(), "cannot open the memory shared by the ranks of the bench");
  void* memory = ::mmap(nullptr, bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "cannot map the memory shared by the ranks of the bench");
  // The file is all zeros, which is a valid first value of every member.
  header_ = static_cast<Header*>(memory);
  slots_ = reinterpret_cast<Slot*>(header_ + 1);
}

Arena::~Arena() { ::munmap(header_, bytes(ranks_)); }

Arena::Slot& Arena::slot(int rank) noexcept { return slots_[rank]; }
std::span<Stamp> Arena::stamps(int rank) noexcept { return slot(rank).stamps; }
std::atomic<std::int64_t>& Arena::word(int rank) noexcept { return slot(rank).word; }

void Arena::barrier() {
  const std::uint32_t generation = header_->generation.load(std::memory_order_acquire);
  if (header_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks_)) {
    header_->arrived.store(0, std::memory_order_relaxed);
    header_->generation.store(generation + 1, std::memory_order_seq_cst);
    if (header_->sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(header_->generation);
  } else {
    const auto released = [&] { return header_->generation.load(std::memory_order_acquire) != generation || header_->failed.load() != 0; };
    constexpr int spins_on_own_core = 20'000, spins_on_shared_core = 50, yields = 200;
    const int spins = spin_ ? spins_on_own_core : spins_on_shared_core;
    for (int i = 0; i < spins && !released(); ++i) relax();
    for (int i = 0; i < yields && !released(); ++i) ::sched_yield();
    if (!released()) {
      const base::Deadline deadline(timeout_);
      const std::chrono::milliseconds look_after{progress_ ? 10 : 1000};  // at the deadline, and for the progress
      header_->sleepers.fetch_add(1, std::memory_order_seq_cst);
      while (!released() && !deadline.passed()) {
        if (progress_) progress_();
        futex_sleep(header_->generation, generation, look_after);
      }
      header_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
      if (!released()) throw std::runtime_error("the ranks of the bench did not meet within " + std::to_string(timeout_.count()) + " ms");
    }
  }
  if (header_->failed.load(std::memory_order_relaxed) != 0) throw PeerGaveUp();
}

void Arena::fail() noexcept {
  header_->failed.store(1);
  header_->generation.fetch_add(1);
  futex_wake_all(header_->generation);
}

std::int64_t Arena::agree_on_maximum(std::int64_t mine) {
  word(rank_).store(mine, std::memory_order_relaxed);
  barrier();
  std::int64_t largest = mine;
  for (int r = 0; r < ranks_; ++r) largest = std::max(largest, word(r).load(std::memory_order_relaxed));
  barrier();
  return largest;
}

}  // namespace unisono::bench
