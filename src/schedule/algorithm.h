#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "coordination/group_topology.h"
#include "schedule/cost_model.h"
#include "schedule/schedule.h"
#include "unisono/call.h"
#include "unisono/engine.h"

namespace unisono::schedule {

/// The abilities of a level's engine that an algorithm may ask for.
class Abilities {
 public:
  /// `engine` may be null: then there are connections between all ranks, or else only all_to_all_v, and no other collectives.
  explicit Abilities(const Engine* engine, bool has_channels = true) : engine_(engine), has_channels_(has_channels) {}
  /// Returns true where the engine carries the collective out as it stands. It must also reduce as exactly as our schedules, which round halves once
  /// and average integers exactly.
  bool offers(const Problem& problem) const;
  /// The same of a call among `size` ranks, without a copy of it.
  bool offers(const CollectiveCall& call, int size) const;
  /// Returns true where bytes can be sent from any rank to any other. An engine without channels offers all_to_all_v.
  bool has_channels() const { return engine_ == nullptr ? has_channels_ : engine_->has_channels(); }
  /// Returns the abilities of an engine that moves bytes as this one does, and offers no other collectives.
  Abilities without_collectives() const { return Abilities(nullptr, has_channels()); }

 private:
  const Engine* engine_;
  bool has_channels_;  // where there is no engine
};

/// Makes the call of a problem without its memory.
CollectiveCall call_without_memory(const Problem& problem);

/// The engines, the topology and the network on which a problem is to be solved.
struct Setting {
  Abilities engine;                                       ///< the engine of the problem's level
  Abilities rail{nullptr};                                ///< the engine of this rank's rail, where there are two levels
  const coordination::GroupTopology* topology = nullptr;  ///< set where the problem may be solved on two levels
  NetworkParameters network = {};                         ///< the same on all ranks
  int sharing = 1;                                        ///< the number of ranks that share each connection with the network; the same on all ranks
};

/// The order in which an algorithm combines the ranks' elements. Each order has the properties of those after it.
enum class Order : std::uint8_t {
  once,           ///< in a single step, from rank 0 to the last
  left_to_right,  ///< from rank 0 to the last, in several steps: halves are rounded in each
  neighbours,     ///< sums of neighbouring ranks with each other, lower ranks on the left: ((0 1) (2 3))
  hosts,          ///< sums of the ranks of each host, which are neighbours only where all ranks of a host are
  any,            ///< some order, with every rank once
  engine,         ///< that of the engine, which has its own rules for halves and callables (Abilities)
  none,           ///< the algorithm combines nothing
};

/// Returns true where a problem may be solved in that order. Halves, and averages of integers, are combined once, since their partial sums are not
/// exact. A user's callable is combined in the order of the ranks. A deterministic call has the bits of a combination from left to right.
bool is_allowed(Order order, const Problem& problem, const Setting& setting);

/// A way to carry out an operation. A new algorithm is a file in src/schedule/algorithms/<operation>/ and a line in the table (table.cpp).
struct Algorithm {
  Operation operation;
  std::string_view name;
  Order order;
  /// Returns true where the algorithm is possible. All ranks must get the same answer.
  bool (*can)(const Problem& problem, const Setting& setting);
  void (*build)(const Problem& problem, const Setting& setting, Builder& to);
  /// Returns the work of the schedule, by a formula that is the same on all ranks. Null for a collective of the engine.
  Cost (*cost)(const Problem& problem, const Setting& setting) = nullptr;
  bool on_two_levels = false;  ///< it uses the setting's topology
};

/// Returns true where an algorithm is possible and allowed. All ranks get the same answer.
inline bool can(const Algorithm& algorithm, const Problem& problem, const Setting& setting) {
  return is_allowed(algorithm.order, problem, setting) && algorithm.can(problem, setting);
}

/// Adds the steps of any collective by the algorithm that is chosen. Returns its name.
std::string_view build(const Problem& problem, const Setting& setting, Builder& to);
/// Returns the cost of that algorithm. A collective of the engine counts as a direct exchange.
Cost cost_of(const Problem& problem, const Setting& setting);

namespace algorithms {

using Can = bool(const Problem& problem, const Setting& setting);
using Build = void(const Problem& problem, const Setting& setting, Builder& to);
using CostOf = Cost(const Problem& problem, const Setting& setting);

// Each of these is described in the file of its name, or in that of its kind: ring.cpp, binomial.cpp, chain.cpp, sum/, move/, two_levels/.
/// Returns true where several ranks can send to each other: what the algorithms on channels need.
Can can_send;
Can can_engine, can_exchange, can_all_to_all_v, can_sum_and_divide, can_two_levels, can_two_level_scan;
Build build_engine, build_exchange, build_all_to_all_v, build_sum_and_divide;
Build build_two_level_vector, build_two_level_scatter, build_two_level_gather, build_two_level_scan, build_two_level_all_to_all;
Build build_everything, build_shares, build_blocks, build_prefix_shares;
Build build_all_reduce_recursive_doubling, build_all_reduce_ring, build_all_reduce_halving_doubling, build_all_reduce_swing;
Build build_reduce_binomial, build_reduce_chain, build_reduce_scatter_ring, build_reduce_scatter_halving, build_scan_recursive_doubling;
Build build_broadcast_scatter_all_gather, build_broadcast_binomial, build_broadcast_chain, build_gather_binomial, build_scatter_binomial;
Build build_all_gather_ring, build_all_gather_bruck, build_all_gather_recursive_doubling, build_all_to_all_bruck, build_all_to_all_pairwise;

CostOf cost_exchange, cost_two_level_vector, cost_two_level_blocks, cost_two_level_scan, cost_two_level_all_to_all;
CostOf cost_everything, cost_shares, cost_blocks, cost_prefix_shares;
CostOf cost_all_reduce_recursive_doubling, cost_all_reduce_ring, cost_all_reduce_halving_doubling;
CostOf cost_reduce_binomial, cost_reduce_chain, cost_reduce_scatter_ring, cost_reduce_scatter_halving, cost_scan_recursive_doubling;
CostOf cost_broadcast_scatter_all_gather, cost_broadcast_binomial, cost_broadcast_chain, cost_gather_binomial, cost_scatter_binomial;
CostOf cost_all_gather_ring, cost_all_gather_bruck, cost_all_gather_recursive_doubling, cost_all_to_all_bruck, cost_all_to_all_pairwise;

}  // namespace algorithms
}  // namespace unisono::schedule
