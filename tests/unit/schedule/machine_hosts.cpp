// The collectives of engines: those of a host's ranks, in whose shared memory each element is combined from left to right, and an all_to_all_v of all
// ranks.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "machine.h"

namespace unisono::schedule::testing {

void Machine::collective(int r, const Step& step) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const bool is_of_all = step.level == Level::group && !case_.has_channels && step.call.operation == Operation::all_to_all_v;
  if ((!is_of_all && (step.level != Level::host || case_.hosts.empty())) || rank.end != rank.next + 1) {
    return complain(r, "has a step of an engine, where there is none");
  }
  rank.is_in_collective = true;
  rank.has_messages = false;
  const std::vector<int> members = members_of(r, step);
  for (const int m : members) {
    if (!ranks_[static_cast<std::size_t>(m)].is_in_collective) return;
  }
  finish_collective(members);
}

std::vector<int> Machine::members_of(int r, const Step& step) const {
  if (step.level == Level::host) return topologies_[static_cast<std::size_t>(r)].members;
  std::vector<int> all(ranks_.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void Machine::finish_collective(const std::vector<int>& members) {
  std::vector<const Step*> steps;
  double round = 0, path = 0;
  for (const int m : members) {
    const Rank& rank = ranks_[static_cast<std::size_t>(m)];
    steps.push_back(&schedules_[static_cast<std::size_t>(m)].steps[rank.next]);
    const Problem &call = steps.back()->call, &first = steps.front()->call;
    const bool has_same_counts = first.operation == Operation::all_to_all_v || std::ranges::equal(call.counts, first.counts);
    if (call.operation != first.operation || call.root != first.root || call.count != first.count || !has_same_counts) {
      return complain(m, "calls another collective than the other ranks of its host");
    }
    round = std::max(round, rank.round);
    path = std::max(path, rank.path);
  }
  std::vector<std::vector<Symbol>> results;
  for (std::size_t local = 0; local < members.size() && complaint_.empty(); ++local) results.push_back(result_of(members, steps, local));
  for (std::size_t local = 0; local < members.size() && complaint_.empty(); ++local) {
    Rank& rank = ranks_[static_cast<std::size_t>(members[local])];
    if (results[local].size() != steps[local]->out.count) {
      return complain(members[local], fmt::format("has a place for {} elements in a collective of its host that gives {}", steps[local]->out.count,
                                                  results[local].size()));
    }
    std::ranges::copy(results[local], rank.memory.begin() + static_cast<std::ptrdiff_t>(address(rank, steps[local]->out)));
    rank.latest_round = round;
    rank.latest_path = path;
    rank.is_in_collective = false;
    end_wave(members[local]);
  }
}

std::vector<Symbol> Machine::result_of(const std::vector<int>& members, const std::vector<const Step*>& steps, std::size_t local) {
  const Problem& call = steps[local]->call;
  const OperationTraits& traits = traits_of(call.operation);
  const bool gets = traits.receivers == Participants::all_ranks || static_cast<int>(local) == call.root;
  // Returns elements of a member's input.
  const auto part = [&](std::size_t member, std::size_t begin, std::size_t count) {
    const Rank& rank = ranks_[static_cast<std::size_t>(members[member])];
    if (begin + count > steps[member]->in.count) {
      complain(members[member], fmt::format("gives {} elements to a collective of its host that takes {}", steps[member]->in.count, begin + count));
      return std::vector<Symbol>();
    }
    const auto first = rank.memory.begin() + static_cast<std::ptrdiff_t>(address(rank, steps[member]->in) + begin);
    return std::vector<Symbol>(first, first + static_cast<std::ptrdiff_t>(count));
  };
  const auto fold = [&](std::size_t begin, std::size_t count, std::size_t ranks) {
    std::vector<Symbol> sums = part(0, begin, count);
    for (std::size_t m = 1; m < ranks; ++m) {
      const std::vector<Symbol> next = part(m, begin, count);
      for (std::size_t i = 0; i < sums.size() && complaint_.empty(); ++i) sums[i] = combine(members[m], sums[i], next[i]);
    }
    return sums;
  };
  if (!gets) return {};
  switch (call.operation) {
    case Operation::reduce_scatter_v: return fold(call.counts.before(local), call.counts[local], members.size());
    case Operation::all_reduce:
    case Operation::reduce: return fold(0, call.count, members.size());
    case Operation::scan: return fold(0, call.count, local + 1);
    case Operation::broadcast: return part(static_cast<std::size_t>(call.root), 0, call.count);
    case Operation::scatter_v: return part(static_cast<std::size_t>(call.root), call.counts.before(local), call.counts[local]);
    case Operation::exscan:
      if (local > 0) return fold(0, call.count, local);
      return part_of_output(members[local], steps[local]->out);
    default: break;
  }
  std::vector<Symbol> gathered;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const Counts& counts = steps[m]->call.counts;
    const bool exchanges = call.operation == Operation::all_to_all_v;
    const std::vector<Symbol> block = part(m, exchanges ? counts.before(local) : 0, exchanges ? counts[local] : counts[m]);
    if (exchanges && block.size() != call.recv_counts[m])
      complain(members[local], "expects another number of elements in an all_to_all_v of its host");
    gathered.insert(gathered.end(), block.begin(), block.end());
  }
  return gathered;
}

std::vector<Symbol> Machine::part_of_output(int r, const Slice& out) const {
  const Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const auto first = rank.memory.begin() + static_cast<std::ptrdiff_t>(address(rank, out));
  return {first, first + static_cast<std::ptrdiff_t>(out.count)};
}

}  // namespace unisono::schedule::testing
