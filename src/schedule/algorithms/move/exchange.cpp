// Collectives that only move elements: every element is sent directly from the rank that has it to each rank that gets it.
//   exchange      all at once: 1 round, with up to P-1 messages at the same time; sent (P-1) B, if each rank gets B bytes of a rank
//   pairwise      all_to_all and all_to_all_v: in round s to the rank s above, so that no rank gets from several at once: P-1 rounds; sent S (P-1)/P
//                 of the S bytes that every rank gives
//   all_to_all_v  on an engine without channels, one call of it; elements for several ranks are copied for each of them; sent as by exchange
// The first two take no scratch memory.
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {
namespace {

/// Tells which elements of a moving collective go from which rank to which, by the table of operations.
class Blocks {
 public:
  explicit Blocks(const Problem& problem)
      : problem_(problem),
        traits_(traits_of(problem.operation)),
        sent_(Partition::blocks_of(problem)),
        received_(Partition::of(problem.recv_counts, problem.count, problem.size)) {}

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
  static Slice block(const Slice& buffer, Layout layout, const Partition& blocks, int rank) {
    if (layout == Layout::nothing) return buffer.part(0, 0);
    return layout == Layout::blocks ? blocks.part(buffer, rank) : buffer;
  }

  const Problem& problem_;
  const OperationTraits& traits_;
  Partition sent_, received_;
};

}  // namespace

bool can_send(const Problem& problem, const Setting& setting) { return problem.size > 1 && setting.engine.has_channels(); }

bool can_exchange(const Problem&, const Setting& setting) { return setting.engine.has_channels(); }

void build_exchange(const Problem& problem, const Setting&, Builder& to) {
  const Blocks blocks(problem);
  // Empty blocks are exchanged as well, so that no rank goes on before all have come. Every rank begins with its neighbours, so that not all of them
  // send to rank 0 first.
  for (int distance = 1; distance < problem.size; ++distance) {
    const int from = (problem.rank + problem.size - distance) % problem.size;
    if (blocks.receives(from)) to.receive(problem.level, from, blocks.incoming(from));
  }
  for (int distance = 1; distance < problem.size; ++distance) {
    const int target = (problem.rank + distance) % problem.size;
    if (blocks.sends(target)) to.send(problem.level, target, blocks.outgoing(target));
  }
  to.copy(blocks.incoming(problem.rank), blocks.outgoing(problem.rank));
  to.next_wave();
}

Cost cost_exchange(const Problem& problem, const Setting&) {
  const OperationTraits& traits = traits_of(problem.operation);
  const std::size_t block = traits.in == Layout::whole ? problem.count : block_of(problem);
  const double others = problem.size - 1, n = static_cast<double>(block);
  const bool gathers = traits.senders == Participants::all_ranks && traits.receivers == Participants::root;
  // Where only one rank sends, or receives, there are as many messages as other ranks.
  const bool is_rooted = traits.senders == Participants::root || gathers;
  const double each = is_rooted ? others / problem.size : others;
  return {.rounds = others > 0 ? 1.0 : 0.0,
          .messages = others,
          .path = others * n,
          .sent = gathers ? n : others * n,
          .mean_messages = each,
          .mean_sent = each * n,
          .mean_copied = is_rooted ? n / problem.size : n,
          .copied = n};
}

void build_all_to_all_pairwise(const Problem& problem, const Setting&, Builder& to) {
  const Blocks blocks(problem);
  const int rank = problem.rank, size = problem.size;
  for (int step = 1; step < size; ++step) {
    const int target = (rank + step) % size, source = (rank + size - step) % size;
    to.receive(problem.level, source, blocks.incoming(source));
    to.send(problem.level, target, blocks.outgoing(target));
    if (step == 1) to.copy(blocks.incoming(rank), blocks.outgoing(rank));  // while the transfer is under way
    to.next_wave();
  }
}

Cost cost_all_to_all_pairwise(const Problem& problem, const Setting&) {
  const double others = problem.size - 1, n = static_cast<double>(block_of(problem));
  return evenly({.rounds = others, .messages = others, .path = others * n, .sent = others * n, .copied = n});
}

bool can_all_to_all_v(const Problem& problem, const Setting& setting) {
  return !setting.engine.has_channels() && problem.operation != Operation::all_to_all_v;
}

void build_all_to_all_v(const Problem& problem, const Setting&, Builder& to) {
  const Blocks blocks(problem);
  std::vector<std::size_t> send, receive;
  std::size_t sent = 0, received = 0;
  bool is_in_order = true;  // the blocks lie one behind the other already
  for (int r = 0; r < problem.size; ++r) {
    const Slice out = blocks.outgoing(r);
    is_in_order = is_in_order && (out.count == 0 || out.begin == problem.in.begin + sent);
    send.push_back(out.count);
    receive.push_back(blocks.incoming(r).count);
    sent += send.back();
    received += receive.back();
  }
  Problem moved = problem;
  moved.operation = Operation::all_to_all_v;
  moved.root = -1;
  moved.count = 0;
  moved.counts = Counts(send);
  moved.recv_counts = Counts(receive);
  moved.in = problem.in.part(0, sent);
  moved.out = problem.out.part(0, received);
  if (!is_in_order || problem.is_in_place) {
    moved.in = to.scratch(sent);
    std::size_t at = 0;
    for (int r = 0; r < problem.size; ++r) {
      const Slice out = blocks.outgoing(r);
      to.copy(moved.in.part(at, out.count), out);
      at += out.count;
    }
    to.next_wave();
  }
  moved.is_in_place = false;
  to.engine(moved);
}

}  // namespace unisono::schedule::algorithms
