#include "schedule/algorithms/two_levels/parts.h"

namespace unisono::schedule::algorithms {

Problem problem_of_host(const Problem& of, const Setting& setting, Operation operation, const Slice& in, const Slice& out) {
  Problem problem = move(of, operation, in, out);
  problem.level = Level::host;
  problem.op = partial_op(of);
  problem.is_custom = of.is_custom;
  problem.rank = setting.topology->local;
  problem.size = static_cast<int>(setting.topology->members.size());
  problem.count = of.count;
  return problem;
}

void on_host(const Problem& of, const Setting& setting, Operation operation, const Slice& in, const Slice& out, const Counts& counts, int root,
             Builder& to, const Counts& received) {
  if (setting.topology->members.size() == 1) {
    to.copy(out, in);
    to.next_wave();
    return;
  }
  Problem problem = problem_of_host(of, setting, operation, in, out);
  problem.root = root;
  problem.counts = counts;
  problem.recv_counts = received;
  problem.count = operation == Operation::all_to_all_v ? 0 : counts.total();
  to.engine(problem);
}

Problem on_rail(const Problem& of, const Setting& setting, const Slice& share) {
  Problem problem = of;
  problem.level = Level::rail;
  problem.rank = setting.topology->host();
  problem.size = setting.topology->host_count();
  problem.in = problem.out = share;
  problem.is_in_place = true;
  problem.count = share.count;
  if (of.root >= 0) problem.root = setting.topology->host_of(of.root);
  if (!of.is_custom) problem.op = partial_op(of);
  return problem;
}

Problem blocks_on_rail(const Problem& of, const Setting& setting, Operation operation, const Slice& in, const Slice& out, const Counts& counts) {
  Problem problem = on_rail(of, setting, in);
  problem.operation = operation;
  problem.is_in_place = false;
  problem.out = out;
  problem.counts = counts;
  problem.count = counts.total();
  return problem;
}

Cost cost_of_levels(const Problem& rail, const Setting& setting, int host_calls, std::size_t host_elements) {
  Setting of_rail = setting_of_rail(setting);
  of_rail.engine = Abilities(nullptr);
  Cost cost = cost_of(rail, of_rail);
  cost.path *= static_cast<double>(of_rail.sharing) / setting.sharing;  // the time of the whole problem counts with the sharing of the group
  cost.host_calls = host_calls;
  cost.host_elements = static_cast<double>(host_elements) * host_calls;
  return cost;
}

Problem even_blocks_on_rail(const Problem& of, const Setting& setting, Operation operation) {
  const int hosts = setting.topology->host_count();
  const std::size_t ranks = largest_share(largest_share(static_cast<std::size_t>(of.size), hosts), setting.topology->rails);
  Problem problem = on_rail(of, setting, {});
  problem.operation = operation;
  problem.typical_block = block_of(of) * ranks;
  problem.count = problem.typical_block * static_cast<std::size_t>(hosts);
  return problem;
}

RailBlocks::RailBlocks(const Problem& problem, const Setting& setting)
    : problem_(problem), setting_(setting), topology_(*setting.topology), blocks_(Partition::blocks_of(problem)) {
  hosts_.resize(static_cast<std::size_t>(topology_.host_count()));
  for (int r = 0; r < problem.size; ++r) hosts_[static_cast<std::size_t>(topology_.host_of(r))].push_back(r);
}

std::size_t RailBlocks::elements(int rail, int host) const {
  const std::vector<int>& ranks = hosts_[static_cast<std::size_t>(host)];
  std::size_t sum = 0;
  for (auto l = static_cast<std::size_t>(rail); l < ranks.size(); l += static_cast<std::size_t>(topology_.rails)) sum += blocks_.count(ranks[l]);
  return sum;
}

Counts RailBlocks::carried() const {
  std::vector<std::size_t> counts(topology_.members.size(), 0);
  for (int rail = 0; rail < topology_.rails; ++rail) {
    for (int host = 0; host < topology_.host_count(); ++host) counts[static_cast<std::size_t>(rail)] += elements(rail, host);
  }
  return Counts(counts);
}

Counts RailBlocks::by_host() const {
  std::vector<std::size_t> counts(hosts_.size(), 0);
  for (int host = 0; has_rail() && host < topology_.host_count(); ++host) counts[static_cast<std::size_t>(host)] = elements(topology_.local, host);
  return Counts(counts);
}

std::size_t RailBlocks::charged() const { return has_rail() ? elements(topology_.local, topology_.host()) : 0; }

bool RailBlocks::is_in_order() const { return topology_.rails == 1 && std::ranges::is_sorted(topology_.hosts); }

Slice RailBlocks::pack(const Slice& in, Builder& to) const {
  if (is_in_order() || in.count == 0) return in;
  const Slice packed = to.scratch(total());
  for_each_block([&](int rank, std::size_t at) { to.copy(packed.part(at, blocks_.count(rank)), blocks_.part(in, rank)); });
  to.next_wave();
  return packed;
}

void RailBlocks::unpack(const Slice& packed, const Slice& out, Builder& to) const {
  for_each_block([&](int rank, std::size_t at) { to.copy(blocks_.part(out, rank), packed.part(at, blocks_.count(rank))); });
  to.next_wave();
}

Counts RailBlocks::of_members(bool to_carriers) const {
  const auto n = topology_.members.size();
  std::vector<std::size_t> counts(n, 0);
  if (to_carriers) {  // of this rank's own block, by the rank that carries it
    counts[static_cast<std::size_t>(rail_of(topology_.local))] = blocks_.count(problem_.rank);
  } else if (has_rail()) {  // of the blocks in charge, by the rank that each belongs to
    for (auto l = static_cast<std::size_t>(topology_.local); l < n; l += static_cast<std::size_t>(topology_.rails)) {
      counts[l] = blocks_.count(topology_.members[l]);
    }
  }
  return Counts(counts);
}

void RailBlocks::hand_out(const Slice& charged, const Slice& out, Builder& to) const {
  on_host(problem_, setting_, Operation::all_to_all_v, charged, out, of_members(false), -1, to, of_members(true));
}

void RailBlocks::take_in(const Slice& in, const Slice& charged, Builder& to) const {
  on_host(problem_, setting_, Operation::all_to_all_v, in, charged, of_members(true), -1, to, of_members(false));
}

}  // namespace unisono::schedule::algorithms
