// A collective of the engine: as it stands (engine), or, for the average of floating-point numbers, a sum that is divided once, in place
// (sum_and_divide).
#include "schedule/algorithm.h"

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

}  // namespace unisono::schedule::algorithms
