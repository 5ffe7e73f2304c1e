#include "schedule/algorithms/two_levels.h"

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
             Builder& to) {
  if (setting.topology->members.size() == 1) {
    to.copy(out, in);
    to.next_wave();
    return;
  }
  Problem problem = problem_of_host(of, setting, operation, in, out);
  problem.root = root;
  problem.counts = counts;
  problem.count = counts.total();
  to.engine(problem);
}

void exchange_on_host(const Problem& of, const Setting& setting, const Slice& in, const Slice& out, const Counts& sent, const Counts& received,
                      Builder& to) {
  if (setting.topology->members.size() == 1) {
    to.copy(out, in);
    to.next_wave();
    return;
  }
  Problem problem = problem_of_host(of, setting, Operation::all_to_all_v, in, out);
  problem.counts = sent;
  problem.recv_counts = received;
  problem.count = 0;
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
  problem.root = of.root < 0 ? -1 : setting.topology->host_of(of.root);
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
  problem.root = of.root < 0 ? -1 : setting.topology->host_of(of.root);
  return problem;
}

Cost cost_of_rail_blocks(const Problem& problem, const Setting& setting, Operation operation) {
  const std::size_t all = block_of(problem) * static_cast<std::size_t>(problem.size);
  Cost cost = cost_of_levels(even_blocks_on_rail(problem, setting, operation), setting, 1, all);
  cost.copied += static_cast<double>(all);
  cost.mean_copied += static_cast<double>(all);
  cost.scratch += reserved(all) + reserved(largest_share(all, setting.topology->rails));
  return cost;
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
  std::size_t at = 0;
  for (int rail = 0; rail < topology_.rails; ++rail) {
    for (const std::vector<int>& ranks : hosts_) {
      for (auto l = static_cast<std::size_t>(rail); l < ranks.size(); l += static_cast<std::size_t>(topology_.rails)) {
        const Slice block = blocks_.part(in, ranks[l]);
        to.copy(packed.part(at, block.count), block);
        at += block.count;
      }
    }
  }
  to.next_wave();
  return packed;
}

void RailBlocks::unpack(const Slice& packed, const Slice& out, Builder& to) const {
  std::size_t at = 0;
  for (int rail = 0; rail < topology_.rails; ++rail) {
    for (const std::vector<int>& ranks : hosts_) {
      for (auto l = static_cast<std::size_t>(rail); l < ranks.size(); l += static_cast<std::size_t>(topology_.rails)) {
        const Slice block = blocks_.part(out, ranks[l]);
        to.copy(block, packed.part(at, block.count));
        at += block.count;
      }
    }
  }
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
  exchange_on_host(problem_, setting_, charged, out, of_members(false), of_members(true), to);
}

void RailBlocks::take_in(const Slice& in, const Slice& charged, Builder& to) const {
  exchange_on_host(problem_, setting_, in, charged, of_members(true), of_members(false), to);
}

}  // namespace unisono::schedule::algorithms
