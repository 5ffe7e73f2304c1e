#pragma once

#include "schedule/algorithms/parts.h"

// Parts that the algorithms on two levels have in common. The ranks of each host combine among themselves in shared memory, and each rail
// (GroupTopology) carries its share between the hosts, so that all ranks of a host use the network.
namespace unisono::schedule::algorithms {

/// Adds a collective of the ranks of this host. With a single rank it is a copy.
inline void on_host(const Problem& of, const Setting& setting, Operation operation, const Slice& in, const Slice& out, const Counts& counts, int root,
                    Builder& to) {
  if (setting.topology->members.size() == 1) {
    to.copy(out, in);
    to.next_wave();
    return;
  }
  Problem problem = move(of, operation, in, out);
  problem.level = Level::host;
  problem.op = of.op == ReduceOp::avg ? ReduceOp::sum : of.op;
  problem.is_custom = of.is_custom;
  problem.rank = setting.topology->local;
  problem.size = static_cast<int>(setting.topology->members.size());
  problem.root = root;
  problem.counts = counts;
  problem.count = counts.total();
  to.engine(problem);
}

/// Returns the shares of the rails, as counts of the ranks of this host.
inline Counts shares_of_rails(const Problem& problem, const Setting& setting) {
  return shares(problem.count, setting.topology->rails, static_cast<int>(setting.topology->members.size()));
}

/// Returns the problem of the same operation among the ranks of this rank's rail, in place on its share.
inline Problem on_rail(const Problem& of, const Setting& setting, const Slice& share) {
  Problem problem = of;
  problem.level = Level::rail;
  problem.rank = setting.topology->host();
  problem.size = setting.topology->host_count();
  problem.in = problem.out = share;
  problem.is_in_place = true;
  problem.count = share.count;
  if (of.op == ReduceOp::avg) problem.op = ReduceOp::sum;
  return problem;
}

}  // namespace unisono::schedule::algorithms
