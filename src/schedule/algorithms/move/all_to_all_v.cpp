// Any collective that only moves elements, on an engine without channels: a single all_to_all_v. Elements for several ranks are copied for each of
// them. A rank sends as much as by an exchange over channels.
#include "schedule/algorithm.h"
#include "schedule/algorithms/move/blocks.h"

namespace unisono::schedule::algorithms {

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
