#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launch/view/rank_facts.h"

namespace unisono::launcher {

/// A rank that waits for another one.
struct Wait {
  const RankFacts* rank = nullptr;
  const recorder::CallSeen* call = nullptr;
  std::uint64_t for_ns = 0;
  bool blocks = false;  ///< its program does nothing else meanwhile

  int own() const { return rank->record.rank; }
  int other() const { return call->waited_for; }
  bool is_for_anybody() const { return call->kind == Operation::recv && call->peer < 0; }
};

/// The waits of the ranks of a job for each other.
class Waits {
 public:
  /// Shorter waits than `at_least` are none.
  Waits(std::span<const RankFacts> ranks, std::uint64_t at_least);

  const std::vector<Wait>& all() const { return all_; }
  const RankFacts* find(int rank) const;
  /// Returns the wait that keeps a rank's program from going on; null where there is none.
  const Wait* of(int rank) const;
  /// Returns the ranks that wait in the collective in which `wait` is, the own one too; for a message that is the only one.
  std::vector<int> company(const Wait& wait) const;

 private:
  std::span<const RankFacts> ranks_;
  std::vector<Wait> all_;
};

/// A message that a rank has sent, and that its receiver has never asked for.
struct Stray {
  const recorder::CallSeen* send = nullptr;
  int to = -1;
};

/// Looks among the calls of the rank from which `receiver` waits for a message: for one to it with another tag, or else for one with this tag to a
/// rank that has never asked for it.
Stray stray_for(const Waits& waits, const Wait& receiver);

/// "rank 3", "ranks 0, 1 and 3", "17 ranks"
std::string ranks_text(const std::vector<int>& ranks);

/// An obstacle between a job and its next step.
struct Delay {
  std::string text = {};     ///< "rank 3 has not come to all_reduce #841 of world (train.cpp:57) for 12.1 s: it is in the program, last seen in …"
  std::string advice = {};   ///< what to look at next: a sentence; may be empty
  int late = -1;             ///< the rank to look at
  std::uint64_t for_ns = 0;  ///< how long the others have waited
  std::vector<int> circle = {};  ///< ranks of which each waits for the next one, and the last for the first; empty: there is none
  recorder::CallSeen call = {};  ///< in which the others wait
};

/// Finds the ranks that others wait for, those first that do not wait themselves, and of those the longest wait. Ranks that wait for each other are
/// one delay. A rank that only waits because of another one is no delay. Waits below `at_least` are none.
std::vector<Delay> delays_of(std::span<const RankFacts> ranks, std::uint64_t at_least);
/// Shorter waits are the normal course of a program, and are not told.
inline constexpr std::uint64_t told_delay_ns = 1'000'000'000;

}  // namespace unisono::launcher
