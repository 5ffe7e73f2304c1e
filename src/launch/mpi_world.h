#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/child.h"
#include "launch/pmi_server.h"
#include "launch/pmix_helper.h"
#include "launch/supervisor.h"

namespace unisono::launcher {

/// What makes the ranks of one attempt a world for MPI: the launcher's side of what mpirun does for them. Both kinds are served, unless UNISONO_MPI
/// names one: which one the program is linked to, or the plug-in takes, shows in the ranks. A job that was not asked to run on mpi has none of this.
class MpiWorld {
 public:
  /// Null where the job does not ask for backend mpi. StartFailed where it cannot have it.
  static std::unique_ptr<MpiWorld> make(const JobOptions& options, const std::string& job_id, int attempt);

  /// Puts into a rank's plan what it needs.
  void prepare(int local_rank, ChildPlan& plan);
  /// All ranks are there.
  void started();
  void wait_for(PollSet& set);

 private:
  MpiWorld() = default;

  int ranks_ = 0;
  std::unique_ptr<PmiServer> pmi_;
  std::unique_ptr<PmixHelper> pmix_;
};

}  // namespace unisono::launcher
