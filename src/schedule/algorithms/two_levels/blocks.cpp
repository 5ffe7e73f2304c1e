// The operations with a block for each rank on two levels, with blocks of equal or different lengths. Each rail moves the blocks that it carries
// (RailBlocks) between the hosts; ranks beyond the rails have a block that another rank of their host carries. With H hosts of L ranks each, a rail
// has S/L of the S bytes, and H ranks:
//   rounds, sent   those of the operation on the rail: of a reduce_scatter and an all_gather (S/L) (H-1)/H bytes
//   scratch        S where a rank has all blocks, to bring them into the order of the rails, and S/L; and that of the rail's operation
//   order          sums of hosts, each from left to right
#include "schedule/algorithms/two_levels/parts.h"

namespace unisono::schedule::algorithms {
namespace {

/// The operation as hosts and rails carry it out: with counts.
Operation with_counts(const OperationTraits& traits) {
  if (traits.out == Layout::blocks) return traits.receivers == Participants::root ? Operation::gather_v : Operation::all_gather_v;
  return traits.reduces ? Operation::reduce_scatter_v : Operation::scatter_v;
}

/// Where blocks of all ranks are given, and which rank of that host gives or gets them.
struct Place {
  bool is_here = true, is_whole = true;  ///< this host has all blocks; this rank does
  int local_root = -1;
  Place(const Problem& problem, const coordination::GroupTopology& topology) {
    if (problem.root < 0) return;
    is_here = topology.here(problem.root);
    is_whole = problem.is_root();
    local_root = is_here ? topology.local_of(problem.root) : -1;
  }
};

}  // namespace

// scatter and reduce_scatter: the ranks of a host get what their rails carry, summed; the rails go on; ranks beyond the rails get their blocks.
void build_two_level_scatter(const Problem& problem, const Setting& setting, Builder& to) {
  const RailBlocks blocks(problem, setting);
  const Place place(problem, *setting.topology);
  const Operation operation = with_counts(traits_of(problem.operation));
  Slice of_rail = problem.in.part(0, 0);
  if (place.is_here) {
    const Counts carried = blocks.carried();
    of_rail = to.scratch(carried[static_cast<std::size_t>(setting.topology->local)]);
    const Slice all = place.is_whole ? blocks.pack(problem.in, to) : of_rail.part(0, 0);
    on_host(problem, setting, operation, all, of_rail, carried, place.local_root, to);
  }
  const Slice charged = blocks.has_charges() ? to.scratch(blocks.charged()) : problem.out;
  if (blocks.has_rail()) build(blocks_on_rail(problem, setting, operation, of_rail, charged, blocks.by_host()), setting_of_rail(setting), to);
  if (blocks.has_charges()) blocks.hand_out(charged, problem.out, to);
  if (reduces(operation)) finish_average(problem, problem.out, to);
}

// gather and all_gather: the other way round.
void build_two_level_gather(const Problem& problem, const Setting& setting, Builder& to) {
  const RailBlocks blocks(problem, setting);
  const Place place(problem, *setting.topology);
  const Operation operation = with_counts(traits_of(problem.operation));
  Slice charged = problem.in;
  if (blocks.has_charges()) {
    charged = to.scratch(blocks.charged());
    blocks.take_in(problem.in, charged, to);
  }
  const Counts carried = blocks.carried();
  const Slice of_rail = to.scratch(place.is_here ? carried[static_cast<std::size_t>(setting.topology->local)] : 0);
  if (blocks.has_rail()) build(blocks_on_rail(problem, setting, operation, charged, of_rail, blocks.by_host()), setting_of_rail(setting), to);
  if (!place.is_here) return;
  const bool unpacks = place.is_whole && !blocks.is_in_order();
  const Slice all = unpacks ? to.scratch(blocks.total()) : problem.out;
  on_host(problem, setting, operation, of_rail, all, carried, place.local_root, to);
  if (unpacks) blocks.unpack(all, problem.out, to);
}

// The rail carries the operation out, and all blocks are brought into order once.
Cost cost_two_level_blocks(const Problem& problem, const Setting& setting) {
  const std::size_t all = block_of(problem) * static_cast<std::size_t>(problem.size);
  Cost cost = cost_of_levels(even_blocks_on_rail(problem, setting, with_counts(traits_of(problem.operation))), setting, 1, all);
  cost.copied += static_cast<double>(all);
  cost.mean_copied += static_cast<double>(all);
  cost.scratch += reserved(all) + reserved(largest_share(all, setting.topology->rails));
  return cost;
}

}  // namespace unisono::schedule::algorithms
