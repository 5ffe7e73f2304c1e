#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "hosts/host_list.h"

// Hosts that a batch system has given, without options.
namespace unisono::tools {

/// Returns the numbers of a list in Slurm's form, "2(x3),1" being 2, 2, 2, 1. Throws InvalidArgument, which quotes it, for any other form.
std::vector<int> repeated_numbers(std::string_view text);

/// Returns the hosts of the Slurm allocation in whose shell or batch script this process runs, with as many ranks as it has tasks there; empty where
/// it is in none, or is a task of a step of srun. Throws InvalidArgument where the variables contradict each other.
std::vector<HostEntry> allocated_hosts(const base::Environment& environment);

/// Returns the command that starts a process on a host of the allocation: by srun where there is one, else "ssh".
std::string allocation_command(const base::Environment& environment);

/// A pod of an indexed Job of Kubernetes.
struct IndexedPod {
  int index = 0;
  std::string first_pod = {};  ///< the name of pod 0; empty: the pods have no names
};
/// Returns the pod that this process is in, by JOB_COMPLETION_INDEX and its host's name, NAME-INDEX.
std::optional<IndexedPod> indexed_pod(const base::Environment& environment);

}  // namespace unisono::tools
