#pragma once

#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

/// Tells which elements of a moving collective go from which rank to which, by the table of operations.
class Blocks {
 public:
  explicit Blocks(const Problem& problem)
      : problem_(problem),
        traits_(traits_of(problem.operation)),
        sent_(Partition::blocks_of(problem)),
        received_(Partition::of(problem.recv_counts, problem.count, problem.size)) {}

  /// Returns true where this rank takes part in a transfer with that rank, even an empty one.
  bool sends(int to) const { return is_part(traits_.senders, problem_.rank) && is_part(traits_.receivers, to); }
  bool receives(int from) const { return is_part(traits_.receivers, problem_.rank) && is_part(traits_.senders, from); }
  /// Return the elements that go to a rank, and those that come from it.
  Slice outgoing(int to) const { return sends(to) ? block(problem_.in, traits_.in, sent_, to) : problem_.in.part(0, 0); }
  Slice incoming(int from) const {
    const bool has_own_counts = problem_.operation == Operation::all_to_all_v;
    return receives(from) ? block(problem_.out, traits_.out, has_own_counts ? received_ : sent_, from) : problem_.out.part(0, 0);
  }

 private:
  bool is_part(Participants part, int rank) const { return part == Participants::all_ranks || rank == problem_.root; }
  static Slice block(const Slice& buffer, Layout layout, const Partition& blocks, int rank) {
    if (layout == Layout::nothing) return buffer.part(0, 0);
    return layout == Layout::blocks ? blocks.part(buffer, rank) : buffer;
  }

  const Problem& problem_;
  const OperationTraits& traits_;
  Partition sent_, received_;
};

}  // namespace unisono::schedule::algorithms
