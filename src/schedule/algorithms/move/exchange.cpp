// Any collective that only moves elements, over channels: every element is sent directly from the rank that has it to each rank that gets it, all at
// once.
//   rounds   1, with up to P-1 messages at the same time
//   sent     (P-1) B, where each rank gets B bytes of a rank
//   scratch  none
#include "schedule/algorithm.h"
#include "schedule/algorithms/move/blocks.h"

namespace unisono::schedule::algorithms {

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

bool can_send(const Problem& problem, const Setting& setting) { return problem.size > 1 && setting.engine.has_channels(); }

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

}  // namespace unisono::schedule::algorithms
