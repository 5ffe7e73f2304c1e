#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace unisono::bench {

/// Another rank has failed and reports the reason itself.
struct PeerGaveUp : std::runtime_error {
  PeerGaveUp() : std::runtime_error("another rank of the bench gave up") {}
};

/// The begin and the end of one timed call (or batch), in nanoseconds of the steady clock.
struct Stamp {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Returns what a call takes that every rank has stamped, in nanoseconds: until the last rank is done, from when the last one began. Where ranks
/// share processors, from when the first one began: until the last one gets a processor, others may have done their whole part of the call.
double duration_ns(std::span<const Stamp> of_ranks, bool share_processors) noexcept;

/// Memory that all ranks of a process set map: a barrier that is independent of the candidates, and a place for each rank's times.
class Arena {
 public:
  static constexpr int most_samples = 1024;
  static constexpr int stamps_beyond = 2;  ///< behind the samples, for what they cost

  static std::size_t bytes(int ranks) noexcept;
  /// Maps the file at `path`, which has `bytes(ranks)` zero bytes. `spin`: every rank has a core of its own, so a wait may spin for long.
  Arena(const std::string& path, int rank, int ranks, bool spin, std::chrono::milliseconds timeout);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  bool share_processors() const noexcept { return !spin_; }

  /// `progress` is called now and then by a rank that has waited in the barrier for long; empty for nothing.
  void while_waiting(std::function<void()> progress) { progress_ = std::move(progress); }

  /// Spins, then yields, then sleeps. Throws PeerGaveUp after fail(), and std::runtime_error past the deadline.
  void barrier();
  /// Wakes all ranks out of the barrier; never throws.
  void fail() noexcept;

  std::span<Stamp> stamps(int rank) noexcept;
  std::span<Stamp> stamps() noexcept { return stamps(rank_); }
  /// Returns a rank's word, through which the ranks agree between two barriers.
  std::atomic<std::int64_t>& word(int rank) noexcept;
  /// Returns the largest of all ranks' numbers; every rank calls it with its own.
  std::int64_t agree_on_maximum(std::int64_t mine);

 private:
  struct Header;
  struct Slot;
  Slot& slot(int rank) noexcept;

  Header* header_ = nullptr;
  Slot* slots_ = nullptr;
  int rank_;
  int ranks_;
  bool spin_;
  std::chrono::milliseconds timeout_;
  std::function<void()> progress_;
};

}  // namespace unisono::bench
