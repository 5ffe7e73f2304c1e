// Any collective that only moves elements, over channels: every element is sent directly from the rank that has it to each rank that gets it, all at
// once. To give S bytes to P ranks, a rank sends (P-1) S.
#include "schedule/algorithm.h"
#include "schedule/algorithms/move/blocks.h"

namespace unisono::schedule::algorithms {

bool can_exchange(const Problem&, const Setting& setting) { return setting.engine.has_channels(); }

void build_exchange(const Problem& problem, const Setting&, Builder& to) {
  const Blocks blocks(problem);
  // Empty blocks are exchanged as well, so that no rank goes on before all have come.
  for (int r = 0; r < problem.size; ++r) {
    if (r != problem.rank && blocks.receives(r)) to.receive(problem.level, r, blocks.incoming(r));
  }
  for (int r = 0; r < problem.size; ++r) {
    if (r != problem.rank && blocks.sends(r)) to.send(problem.level, r, blocks.outgoing(r));
  }
  to.copy(blocks.incoming(problem.rank), blocks.outgoing(problem.rank));
  to.next_wave();
}

}  // namespace unisono::schedule::algorithms
