#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace unisono::rendezvous {

enum class HostOrder {
  as_given,  ///< as `scontrol show hostnames` does
  sorted,    ///< the numbers of each bracket ascending, each once
};

inline constexpr std::size_t longest_host_name = 255;  ///< in bytes; the domain name system allows fewer

/// Returns the host names of a list in Slurm's form: "node[1-3,07],login" is node1, node2, node3, node07, login. Spaces do not count. The text before
/// a dash determines the width of the numbers of its range. Several brackets in one name are multiplied, the first one slowest. Throws
/// InvalidArgument, with the text, for any other form, for more than a million names, and for one of more than `longest_host_name` bytes.
std::vector<std::string> parse_host_list(std::string_view text, HostOrder order = HostOrder::as_given);

/// A task of a Slurm job, from the variables of srun. No program of Slurm is ever started.
struct SlurmTask {
  int rank = 0, local_rank = 0, world_size = 1, nodes = 1;
  std::string first_host;  ///< of the step's (else the job's) nodes: the host of rank 0
  std::uint16_t port = 0;  ///< slurm_port of the job and the step
  std::string job;         ///< job and step, equal for all its tasks
  int attempt = 0;         ///< how often the job was requeued
};

/// Returns true where the environment names a job and this process is a task of it, or the job has several tasks and the missing variables are to be
/// reported. False in the shell of an allocation of one task, which is a process like any other.
bool is_slurm_task(const base::Environment& environment);

/// Returns true where srun has started this process, and false in the script of sbatch and in the shell of an allocation.
bool is_step_of_srun(const base::Environment& environment);

/// Returns the advice for the script of sbatch, which has the variables of task 0 of `world_size` tasks though srun has started none of them. Empty
/// where this process is none, or another launcher has started it.
std::string advice_for_batch_script(const base::Environment& environment, int world_size);

/// Reads the task. Throws InvalidArgument for missing variables, variables without a number, and a node list without a host.
SlurmTask slurm_task(const base::Environment& environment);

/// Returns 15000 + the last four digits of a job id, of which the number in front counts: "12_3" and "12+0" are of job 12. Steps behind the first
/// one, number 0, have other ports of 15000 to 24999, so that steps of a job may run at the same time. Throws InvalidArgument where the id has no
/// number.
std::uint16_t slurm_port(std::string_view job_id, std::uint64_t step = 0);

}  // namespace unisono::rendezvous
