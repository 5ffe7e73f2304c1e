#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engines/decision.h"
#include "unisono/call.h"

namespace unisono::coordination {

/// The comparison of what the ranks of a call have given as counts: the same list on all of them, or of all_to_all_v, what fits together. Each rank
/// gathers the counts of all and finds the same.
class CountsComparison {
 public:
  CountsComparison(const CollectiveCall& call, int rank, int size);
  /// An all_gather of the counts, on memory of this object.
  CollectiveCall gather();
  /// After the gather. Throws Mismatch on every rank where the counts do not fit.
  void judge() const;

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
