#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "launch/job/host_parts.h"
#include "launch/job_options.h"
#include "launch/process/cores.h"

namespace unisono::launcher {

/// Where the ranks of this host run.
struct Placement {
  std::vector<std::vector<int>> processors = {};  ///< by place: those that this rank alone is bound to; empty: no rank is bound
  std::string text = {};                          ///< what was done, and why
  int threads = 1;                                ///< OMP_NUM_THREADS of a rank that has none
  HeldCores held = {};                            ///< the cores of the ranks that are bound, as long as this object lives
};

/// The facts on which the placement depends, beside the cores.
struct PlacementFacts {
  Binding binding = Binding::share;
  HostParts parts = {};                             ///< with Binding::l3 and numa
  int ranks = 1;                                    ///< on this host
  int threads = 1;                                  ///< of each rank, as OMP_NUM_THREADS says
  int at_a_time = std::numeric_limits<int>::max();  ///< the control group lets so many processors be used at a time
  std::string bound_by = {};                        ///< who else binds the ranks; empty: nobody
};

/// Shares the cores among the ranks, each of which is bound to its own:
/// - to as many as it has threads, or with one thread to all of its share. One thread says nothing: many set OMP_NUM_THREADS=1 for all programs, and
///   what else a rank runs, such as processes that load data, would have to go to one core with it;
/// - to whole cores, with all their processors. Only where there are more ranks than cores, each rank gets one processor, siblings last.
/// With Binding::l3 and numa each is bound to all cores of the part in which its share begins: neighbours are together, and ranks are in all parts.
/// No rank is bound if somebody else binds them, if they or their threads outnumber the processors, or if other jobs hold too many cores: a rank that
/// was bound to the rest would be kept there when those have ended.
/// `take`: takes a core for this job, or returns false. What was taken is to be given back if no rank is bound.
Placement place_ranks(const PlacementFacts& facts, const std::vector<Core>& cores, const std::function<bool(const Core&)>& take);

/// Places the ranks of a job on the cores of this host that this process may use, and holds those that they are bound to. At level info the
/// log says what was done. `parts`: parts_of_host() of the job's binding.
Placement place_on_this_host(const JobOptions& options, const std::string& program, const HostParts& parts);

}  // namespace unisono::launcher
