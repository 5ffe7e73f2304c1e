#pragma once

#include <memory>

#include "launch/hosts/hosts.h"
#include "launch/job_options.h"
#include "launch/process/child.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// Makes the ranks of one attempt a world for MPI, as mpirun does. launch/mpi/ does it; without that folder (UNISONO_BUILD_PMI=OFF) no_mpi.cpp
/// refuses.
class MpiRanks {
 public:
  MpiRanks() = default;
  virtual ~MpiRanks() = default;
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  /// Adds descriptors and variables for MPI to a rank's plan.
  virtual void prepare(int local_rank, ChildPlan& plan) = 0;
  /// Call it when all ranks have been started.
  virtual void started() = 0;
  virtual void wait_for(PollSet& set) = 0;
};

/// Tells whether the backend of the ranks is MPI: "mpi", "MPI", "cpu:mpi,cuda:nccl".
bool asks_for_mpi(const JobOptions& options);

/// Serves the ranks of a job that asks for MPI. Throws StartFailed if that is not possible.
std::unique_ptr<MpiRanks> serve_mpi(const JobOptions& options, int attempt, const Hosts& hosts);

}  // namespace unisono::launcher
