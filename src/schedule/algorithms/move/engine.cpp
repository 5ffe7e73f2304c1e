// A collective of the engine: as it stands (engine), for the average of floating-point numbers a sum that is divided once, in place (sum_and_divide),
// and for any collective that only moves elements, on an engine without channels, a single all_to_all_v: elements for several ranks are copied for
// each of them, and a rank sends as much as by an exchange over channels.
#include "schedule/algorithm.h"
#include "schedule/algorithms/move/blocks.h"

namespace unisono::schedule::algorithms {
namespace {

Problem sum_of(const Problem& problem) {
  Problem sum = problem;
  sum.op = ReduceOp::sum;
  return sum;
}

}  // namespace

bool can_engine(const Problem& problem, const Setting& setting) { return setting.engine.offers(problem); }
void build_engine(const Problem& problem, const Setting&, Builder& to) { to.engine(problem); }

bool can_sum_and_divide(const Problem& problem, const Setting& setting) {
  if (problem.is_custom || problem.op != ReduceOp::avg || is_half(problem.dtype) || is_integer(problem.dtype)) return false;
  return setting.engine.offers(sum_of(problem));
}

void build_sum_and_divide(const Problem& problem, const Setting&, Builder& to) {
  to.engine(sum_of(problem));
  if (problem.operation != Operation::reduce || problem.is_root()) to.divide(problem.out, static_cast<std::size_t>(problem.size));
  to.next_wave();
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
