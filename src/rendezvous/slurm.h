#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/environment.h"

namespace unisono::rendezvous {

/// A task of a Slurm job, as the variables of srun say. No program of Slurm's is ever started.
struct SlurmTask {
  int rank = 0, local_rank = 0, world_size = 1, nodes = 1;
  std::string first_host;  ///< of the step's (else the job's) nodes: where rank 0 is
  std::uint16_t port = 0;  ///< slurm_port of the job
  std::string job;         ///< job and step, the same for all its tasks
  int attempt = 0;         ///< how often the job was requeued
};

/// A job is named, and this process is a task of it (or the job has several, and one is to be told what is missing). False in the shell of an
/// allocation of one task, which is a process like any other.
bool is_slurm_task(const base::Environment& environment);

/// InvalidArgument naming what is missing, no number, or a node list without a host.
SlurmTask slurm_task(const base::Environment& environment);

/// 15000 + the last four digits of a job id, of which the number in front counts: "12_3" and "12+0" are of job 12. InvalidArgument where there is
/// none.
std::uint16_t slurm_port(std::string_view job_id);

}  // namespace unisono::rendezvous
