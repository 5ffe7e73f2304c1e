#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coordination/exchange.h"
#include "engines/decision.h"
#include "unisono/call.h"

namespace unisono::coordination {

/// Compares the counts that the ranks of a call have given: equal lists on all of them or, for all_to_all_v, lists that fit together. Each rank
/// gathers the counts of all and reaches the same result.
class CountsComparison {
 public:
  CountsComparison(const CollectiveCall& call, int rank, int size);
  /// Returns an all_gather of the counts, on memory of this object.
  CollectiveCall gather();
  /// Returns this rank's counts for the comparison of the calls to carry. Its contributions are of the same length on all ranks.
  Carried carried() const;
  /// Called after the gather. Throws Mismatch on every rank where the counts do not fit.
  void judge() const;
  /// The same with the counts that have come with the comparison of the calls.
  void judge(const Carried& come, const GroupTopology& topology);

 private:
  void judge_pairs() const;
  void judge_lists() const;
  [[noreturn]] void throw_mismatch(const engines::Decision& decision) const;

  Operation operation_;
  std::string name_;
  std::uint64_t sequence_;
  int rank_;
  std::size_t size_;
  std::vector<std::uint64_t> mine_, all_;
};

}  // namespace unisono::coordination
