#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/hosts/hosts.h"
#include "launch/hosts/node_exchange.h"
#include "launch/job_options.h"
#include "launch/mpi/mpi_places.h"
#include "launch/mpi/pmi_server.h"
#include "launch/mpi/pmix_helper.h"
#include "launch/process/child.h"

namespace unisono::launcher {

/// Makes the ranks of one attempt a world for MPI, as mpirun does. It serves PMI (MPICH) and PMIx (Open MPI), unless UNISONO_MPI names one of them,
/// because the launcher cannot know which one the program or the plug-in is linked to. A job of another backend has none of this.
class MpiWorld {
 public:
  /// Returns null where the job does not ask for backend mpi. Throws StartFailed where it cannot have it.
  static std::unique_ptr<MpiWorld> make(const JobOptions& options, int attempt, const Hosts& hosts);

  /// Adds descriptors and variables for MPI to a rank's plan.
  void prepare(int local_rank, ChildPlan& plan);
  /// Call it when all ranks have been started.
  void started();
  void wait_for(PollSet& set);

 private:
  MpiWorld() = default;

  void serve_openmpi(const std::string& kind, const std::string& job, const MpiExchange& exchange);

  MpiPlaces places_;
  std::unique_ptr<PmiServer> pmi_;
  std::unique_ptr<PmixHelper> pmix_;
  std::unique_ptr<NodeExchange> exchange_;  ///< null on one host; ends before those that it calls
};

}  // namespace unisono::launcher
