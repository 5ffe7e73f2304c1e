#include "case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace unisono::schedule::testing {

std::string Case::name() const {
  return fmt::format("{} of {}{} elements on {} ranks{}{}{}{}{}", to_string(operation), count, blocks == Blocks::uneven ? " uneven" : "", size,
                     has_root(operation) ? fmt::format(", root {}", root) : "", hosts.empty() ? "" : fmt::format(", hosts {}", fmt::join(hosts, " ")),
                     buffers == Buffers::shared ? ", in place"
                     : has_channels             ? ""
                                                : ", without channels",
                     op == ReduceOp::avg ? ", avg" : "", is_custom ? ", a callable" : "");
}

std::size_t Case::sent(int from, int to) const {
  if (blocks == Blocks::even) return count;
  return (count + static_cast<std::size_t>(from) * 2 + static_cast<std::size_t>(to)) % 4;
}

Counts Case::counts() const {
  std::vector<std::size_t> numbers;
  for (int r = 0; r < size; ++r) numbers.push_back(blocks == Blocks::even ? count : (count + static_cast<std::size_t>(r) * 3) % 5);
  return Counts(numbers);
}

Problem Case::problem(int rank) const {
  Problem p;
  p.operation = operation;
  p.dtype = dtype;
  p.op = op;
  p.is_custom = is_custom;
  p.rank = rank;
  p.size = size;
  p.root = has_root(operation) ? root : -1;
  p.count = count;
  const auto n = static_cast<std::size_t>(size), r = static_cast<std::size_t>(rank);
  if (operation == Operation::all_to_all_v) {
    std::vector<std::size_t> out, in;
    for (int other = 0; other < size; ++other) {
      out.push_back(sent(rank, other));
      in.push_back(sent(other, rank));
    }
    p.counts = Counts(out);
    p.recv_counts = Counts(in);
    p.count = 0;
    p.typical_block = count;
  } else if (has_counts(operation)) {
    p.counts = counts();
    p.count = p.counts.total();
  }
  const auto length = [&](Layout layout, const Counts& lengths) {
    if (layout == Layout::whole) return p.count;
    if (layout == Layout::block) return lengths.size() > 0 ? lengths[r] : count;
    return lengths.size() > 0 ? lengths.total() : n * count;
  };
  const OperationTraits& traits = traits_of(operation);
  const bool gives = takes_part(traits.senders, p.is_root()), gets = takes_part(traits.receivers, p.is_root());
  p.in = {Slice::Memory::input, 0, gives ? length(traits.in, p.counts) : 0};
  p.out = {Slice::Memory::output, 0, gets ? length(traits.out, operation == Operation::all_to_all_v ? p.recv_counts : p.counts) : 0};
  const Places at = places(p);
  p.is_in_place = at.input == at.output && at.end > 0;
  return p;
}

Case::Places Case::places(const Problem& p) const {
  const Places apart{0, p.in.count, p.in.count + p.out.count};
  if (buffers == Buffers::apart) return apart;
  const OperationTraits& traits = traits_of(operation);
  const auto own = static_cast<std::size_t>(p.rank);
  const std::size_t begin = p.counts.size() > 0 ? p.counts.before(own) : own * count;
  if (traits.in == Layout::whole && traits.out == Layout::whole) return {0, 0, std::max(p.in.count, p.out.count)};
  if (traits.in == Layout::block && p.out.count > 0) return {begin, 0, p.out.count};
  if (traits.out == Layout::block && p.in.count > 0) return {0, begin, p.in.count};
  return apart;
}

std::vector<coordination::GroupTopology> Case::topologies() const {
  std::vector<coordination::GroupTopology> all;
  for (int r = 0; r < size && !hosts.empty(); ++r) all.emplace_back(r, hosts);
  return all;
}

std::vector<Case::Expected> Case::expected(int rank) const {
  const Problem p = problem(rank);
  std::vector<Expected> out(p.out.count, Expected{false, 0, 0, 0});
  const auto fill = [&](std::size_t from, std::size_t n, int source, int ranks, std::size_t element) {
    for (std::size_t i = 0; i < n && from + i < out.size(); ++i) out[from + i] = {true, source, ranks, element + i};
  };
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t before = p.counts.size() > 0 && operation != Operation::all_to_all_v ? p.counts.before(own) : own * count;
  std::size_t at = 0;
  switch (operation) {
    case Operation::all_reduce:
    case Operation::reduce: fill(0, out.size(), 0, size, 0); break;
    case Operation::scan: fill(0, out.size(), 0, rank + 1, 0); break;
    case Operation::exscan:
      if (rank > 0) fill(0, out.size(), 0, rank, 0);
      break;
    case Operation::broadcast: fill(0, out.size(), root, 0, 0); break;
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v: fill(0, out.size(), 0, size, before); break;
    case Operation::scatter:
    case Operation::scatter_v: fill(0, out.size(), root, 0, before); break;
    case Operation::all_to_all:
      for (int s = 0; s < size; ++s) fill(static_cast<std::size_t>(s) * count, count, s, 0, own * count);
      break;
    case Operation::all_to_all_v:
      for (int s = 0; s < size; ++s) {
        std::size_t begin = 0;
        for (int r = 0; r < rank; ++r) begin += sent(s, r);
        fill(at, sent(s, rank), s, 0, begin);
        at += sent(s, rank);
      }
      break;
    default:  // the gathers
      for (int s = 0; s < size; ++s) {
        const std::size_t n = p.counts.size() > 0 ? p.counts[static_cast<std::size_t>(s)] : count;
        fill(at, n, s, 0, 0);
        at += n;
      }
  }
  return out;
}

}  // namespace unisono::schedule::testing
