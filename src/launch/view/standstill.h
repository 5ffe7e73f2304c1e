#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launch/view/rank_facts.h"

namespace unisono::launcher {

/// An obstacle between a job and its next step.
struct Delay {
  std::string text;          ///< "rank 3 has not come to all_reduce #841 of world (train.cpp:57) for 12.1 s: it is in the program, last seen in …"
  std::string advice;        ///< what to look at next: a sentence; may be empty
  int late = -1;             ///< the rank to look at
  std::uint64_t for_ns = 0;  ///< how long the others have waited
  std::vector<int> circle;   ///< ranks of which each waits for the next one, and the last for the first; empty: there is none
  recorder::CallSeen call;   ///< in which the others wait
};

/// Finds the ranks that others wait for, those first that do not wait themselves, and of those the longest wait. Ranks that wait for each other are
/// one delay. A rank that only waits because of another one is no delay. Waits below `at_least` are none.
std::vector<Delay> delays_of(std::span<const RankFacts> ranks, std::uint64_t at_least);
/// Shorter waits are the normal course of a program, and are not told.
inline constexpr std::uint64_t told_delay_ns = 1'000'000'000;

}  // namespace unisono::launcher
