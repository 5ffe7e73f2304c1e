#pragma once

#include <string>
#include <vector>

#include "launch/job_options.h"

namespace unisono::launcher {

/// Parts of a host, to each of which ranks may be bound.
struct HostParts {
  std::string name = {};                          ///< of one, for people: "NUMA node"
  std::vector<std::vector<int>> processors = {};  ///< of each, in the order of the host; empty: nobody is bound to a part
};

/// Returns the parts to which this binding binds; none of `core`, `none` and `share`. hwloc knows them, also those that this process may not use.
/// Throws StartFailed if this build has no hwloc, or if hwloc finds none.
HostParts parts_of_host(Binding binding);

}  // namespace unisono::launcher
