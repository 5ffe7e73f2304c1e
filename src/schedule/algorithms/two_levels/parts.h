#pragma once

#include <vector>

#include "schedule/algorithms/parts.h"

// Parts that the algorithms on two levels have in common. The ranks of each host combine among themselves in shared memory, and each rail
// (GroupTopology) carries its share between the hosts, so that all ranks of a host use the network. Where hosts have different numbers of ranks, the
// ranks beyond the rails have their blocks carried by the others: rank l of a host by rail l modulo the number of rails.
namespace unisono::schedule::algorithms {

/// Returns a collective of the ranks of this host, of which the partial result of an average is a sum.
Problem problem_of_host(const Problem& of, const Setting& setting, Operation operation, const Slice& in, const Slice& out);

/// Adds a collective of the ranks of this host, with a count for each of them; `received`: of an all_to_all_v. With a single rank it is a copy.
void on_host(const Problem& of, const Setting& setting, Operation operation, const Slice& in, const Slice& out, const Counts& counts, int root,
             Builder& to, const Counts& received = {});

/// Returns the shares of the rails, as counts of the ranks of this host.
inline Counts shares_of_rails(const Problem& problem, const Setting& setting) {
  return shares(problem.count, setting.topology->rails, static_cast<int>(setting.topology->members.size()));
}

/// Returns the problem of the same operation among the ranks of this rank's rail, in place on its share.
Problem on_rail(const Problem& of, const Setting& setting, const Slice& share);
/// Returns a problem of the rail with a block for each host.
Problem blocks_on_rail(const Problem& of, const Setting& setting, Operation operation, const Slice& in, const Slice& out, const Counts& counts);
/// Returns the setting of this rank's rail. The ranks of a host share its connection with the network.
inline Setting setting_of_rail(const Setting& setting) {
  return {.engine = setting.rail, .network = setting.network, .sharing = setting.topology->rails};
}

/// Returns the cost of a rail's problem and of so many collectives of hosts, on vectors of so many elements each. It is the same on all ranks: the
/// rail's engine, which not all ranks have, is not asked.
Cost cost_of_levels(const Problem& rail, const Setting& setting, int host_calls, std::size_t host_elements);
/// Returns the problem of a rail with even blocks for that cost.
Problem even_blocks_on_rail(const Problem& of, const Setting& setting, Operation operation);

/// The blocks of a group's ranks, as the rails carry them: those of rail 0 first; within a rail by host, within a host in the order of its ranks.
class RailBlocks {
 public:
  RailBlocks(const Problem& problem, const Setting& setting);

  /// Returns the elements that each rank of this host carries: counts of its ranks.
  Counts carried() const;
  /// Returns the elements of each host on this rank's rail.
  Counts by_host() const;
  /// Returns true where this rank has a rail.
  bool has_rail() const { return !topology_.rail.empty(); }
  /// Returns true where ranks of this host have their blocks carried by others.
  bool has_charges() const { return static_cast<int>(topology_.members.size()) > topology_.rails; }
  /// Returns the elements of all blocks of this host that this rank carries; 0 without a rail.
  std::size_t charged() const;
  std::size_t total() const { return blocks_.total(); }
  /// Returns true where the blocks lie in the order of the rails already.
  bool is_in_order() const;

  /// Adds copies of the blocks from the order of the ranks to that of the rails. Returns the slice that has them so, `in` itself if it does.
  Slice pack(const Slice& in, Builder& to) const;
  /// Adds copies of the blocks back to the order of the ranks.
  void unpack(const Slice& packed, const Slice& out, Builder& to) const;
  /// Adds an exchange in this host that gives each rank of it its own block, out of the blocks that this rank has in charge.
  void hand_out(const Slice& charged, const Slice& out, Builder& to) const;
  /// Adds an exchange in this host by which this rank gets the blocks that it has in charge.
  void take_in(const Slice& in, const Slice& charged, Builder& to) const;

  /// Returns the ranks of each host.
  const std::vector<std::vector<int>>& hosts() const { return hosts_; }

 private:
  /// Calls `f` with each rank in the order of the rails, and with the place where its block begins in that order.
  template <class F>
  void for_each_block(F&& f) const {
    std::size_t at = 0;
    for (int rail = 0; rail < topology_.rails; ++rail) {
      for (const std::vector<int>& ranks : hosts_) {
        for (auto l = static_cast<std::size_t>(rail); l < ranks.size(); l += static_cast<std::size_t>(topology_.rails)) {
          f(ranks[l], at);
          at += blocks_.count(ranks[l]);
        }
      }
    }
  }
  int rail_of(int local) const { return local % topology_.rails; }
  std::size_t elements(int rail, int host) const;
  Counts of_members(bool to_carriers) const;

  const Problem& problem_;
  const Setting& setting_;
  const coordination::GroupTopology& topology_;
  Partition blocks_;
  std::vector<std::vector<int>> hosts_;  // the ranks of each
};

}  // namespace unisono::schedule::algorithms
