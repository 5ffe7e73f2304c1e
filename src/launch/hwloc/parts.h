#pragma once

#include <hwloc.h>

#include <memory>
#include <vector>

#include "launch/job/hwloc_library.h"

namespace unisono::launcher {

/// The hardware of a host, as hwloc describes it.
using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

/// Returns the hardware of this host with all of its processors: which of them a launcher may use is not hwloc's business. Null: it cannot be read.
Topology read_host();

/// Returns the processors of each part, in the order of the host. No processor is in two of them: where memory of one kind is that of more processors
/// than memory of another, as it is on some hosts, the nodes of the nearer one count.
std::vector<std::vector<int>> parts_in(hwloc_topology_t topology, PartKind kind);

}  // namespace unisono::launcher
