#include "launch/hwloc/parts.h"

#include <algorithm>

namespace unisono::launcher {
namespace {

std::vector<int> numbers_in(hwloc_const_cpuset_t set) {
  std::vector<int> numbers;
  for (int processor = hwloc_bitmap_first(set); processor >= 0; processor = hwloc_bitmap_next(set, processor)) numbers.push_back(processor);
  return numbers;
}

}  // namespace

Topology read_host() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {nullptr, &hwloc_topology_destroy};
  Topology topology(made, &hwloc_topology_destroy);
  hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(made) != 0) topology.reset();
  return topology;
}

std::vector<std::vector<int>> parts_in(hwloc_topology_t topology, PartKind kind) {
  const hwloc_obj_type_t type = kind == PartKind::numa_node ? HWLOC_OBJ_NUMANODE : HWLOC_OBJ_L3CACHE;
  std::vector<hwloc_const_cpuset_t> sets;
  for (hwloc_obj_t part = nullptr; (part = hwloc_get_next_obj_by_type(topology, type, part)) != nullptr;) {
    const auto is_same = [part](hwloc_const_cpuset_t set) { return hwloc_bitmap_isequal(set, part->cpuset) != 0; };
    // Memory may have no processors of its own.
    if (hwloc_bitmap_iszero(part->cpuset) == 0 && std::ranges::none_of(sets, is_same)) sets.push_back(part->cpuset);
  }
  std::vector<std::vector<int>> parts;
  for (hwloc_const_cpuset_t set : sets) {
    const auto is_nearer = [set](hwloc_const_cpuset_t other) { return other != set && hwloc_bitmap_isincluded(other, set) != 0; };
    if (std::ranges::none_of(sets, is_nearer)) parts.push_back(numbers_in(set));
  }
  return parts;
}

}  // namespace unisono::launcher
