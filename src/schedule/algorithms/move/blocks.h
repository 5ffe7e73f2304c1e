#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace unisono::schedule::algorithms {

/// Tells which elements of a moving collective go from which rank to which, by the table of operations.
class Blocks {
 public:
  explicit Blocks(const Problem& problem)
      : problem_(problem), traits_(traits_of(problem.operation)), sent_(begins_of(problem.counts)), received_(begins_of(problem.recv_counts)) {}

  /// Returns true where this rank takes part in a transfer with that rank, even an empty one.
  bool sends(int to) const { return contributes(traits_, problem_.rank, to, {problem_.size, problem_.root}); }
  bool receives(int from) const { return contributes(traits_, from, problem_.rank, {problem_.size, problem_.root}); }
  /// Return the elements that go to a rank, and those that come from it.
  Slice outgoing(int to) const { return sends(to) ? block(problem_.in, traits_.in, sent_, to) : problem_.in.part(0, 0); }
  Slice incoming(int from) const {
    const bool has_own_counts = problem_.operation == Operation::all_to_all_v;
    return receives(from) ? block(problem_.out, traits_.out, has_own_counts ? received_ : sent_, from) : problem_.out.part(0, 0);
  }

 private:
  /// Returns where the block of each rank begins, and where the last one ends: counts alone would be added up anew for each rank.
  static std::vector<std::size_t> begins_of(const Counts& counts) {
    std::vector<std::size_t> begins;
    if (counts.size() == 0) return begins;
    begins.reserve(counts.size() + 1);
    begins.push_back(0);
    for (const std::size_t count : counts) begins.push_back(begins.back() + count);
    return begins;
  }
  Slice block(const Slice& buffer, Layout layout, const std::vector<std::size_t>& begins, int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    if (layout == Layout::nothing) return buffer.part(0, 0);
    if (layout != Layout::blocks) return buffer;
    return begins.empty() ? buffer.part(r * problem_.count, problem_.count) : buffer.part(begins[r], begins[r + 1] - begins[r]);
  }

  const Problem& problem_;
  const OperationTraits& traits_;
  std::vector<std::size_t> sent_, received_;
};

}  // namespace unisono::schedule::algorithms
