// The steps of a machine that a rank takes by itself.
#include <algorithm>

#include <fmt/format.h>

#include "machine.h"

namespace unisono::schedule::testing {

Symbol Machine::combine(int r, Symbol left, Symbol right) {
  if (left == 0 || right == 0) complain(r, "combines an element that nothing has been written to");
  if (symbols_.at(left).is_divided || symbols_.at(right).is_divided) complain(r, "combines an average");
  if (!symbols_.is_input(left) || !symbols_.is_input(right)) has_partials_ = true;
  return complaint_.empty() ? symbols_.combine(left, right) : 0;
}

Symbol Machine::divide(int r, Symbol sum, std::size_t divisor) {
  if (case_.op != ReduceOp::avg || case_.is_custom) complain(r, "divides what is no average");
  if (divisor != static_cast<std::size_t>(case_.size)) complain(r, fmt::format("divides by {}", divisor));
  if (sum == 0 || symbols_.at(sum).is_divided) complain(r, "divides twice, or what nothing has been written to");
  return complaint_.empty() ? symbols_.divide(sum) : 0;
}

void Machine::carry_out(int r, const Step& step) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  Symbol* const out = rank.memory.data() + address(rank, step.out);
  const Symbol* const in = rank.memory.data() + address(rank, step.in);
  const std::size_t count = step.out.count;
  const auto n = static_cast<double>(count);
  const bool combines = step.kind == Step::Kind::reduce || step.kind == Step::Kind::combine;
  if (combines && !case_.is_custom && step.op != case_.op && !(case_.op == ReduceOp::avg && step.op == ReduceOp::sum)) {
    return complain(r, fmt::format("combines by {}", to_string(step.op)));
  }
  switch (step.kind) {
    case Step::Kind::copy:
      if (step.in.count != count) complain(r, "copies to a place of another length");
      if (in != out) rank.work.copied += n;
      std::copy_n(in, count, out);
      break;
    case Step::Kind::combine: {
      const Symbol* const with = rank.memory.data() + address(rank, step.with);
      if (step.in.count != count || step.with.count != count) return complain(r, "combines slices of different lengths");
      rank.work.reduced += n;
      for (std::size_t i = 0; i < count; ++i) out[i] = combine(r, in[i], with[i]);
      break;
    }
    case Step::Kind::reduce: {
      std::vector<Symbol> sums(in, in + count);
      const bool had_partials = has_partials_;
      has_partials_ = false;
      for (std::size_t b = 0; b < step.blocks; ++b) {
        for (std::size_t i = 0; i < count; ++i) {
          if (!symbols_.is_input(in[b * count + i])) has_partials_ = true;
          const bool so_far = has_partials_;
          if (b > 0) sums[i] = combine(r, sums[i], in[b * count + i]);
          has_partials_ = so_far;  // what is combined within a step is not rounded before its end
        }
      }
      has_partials_ = had_partials || (has_partials_ && step.blocks > 1);
      if (step.op == ReduceOp::avg && !case_.is_custom)
        std::ranges::transform(sums, sums.begin(), [&](Symbol sum) { return divide(r, sum, step.divisor); });
      std::ranges::copy(sums, out);
      if (step.blocks > 1) rank.work.reduced += n * static_cast<double>(step.blocks - 1);
      else rank.work.copied += n;
      break;
    }
    case Step::Kind::divide: std::transform(out, out + count, out, [&](Symbol sum) { return divide(r, sum, step.divisor); }); break;
    default: complain(r, "has a step of an engine, where there is none");
  }
}

}  // namespace unisono::schedule::testing
