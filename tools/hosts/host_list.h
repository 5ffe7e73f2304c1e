#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

// The hosts of a job: those that its user names, and those that a batch system has given.
namespace unisono::tools {

/// A host of a job, as its user has named it.
struct HostEntry {
  std::string name;   ///< as ssh takes it: a name, an address, or USER@ in front of one
  int slots = 1;      ///< how many ranks it takes
  std::string place;  ///< where it was named: "--hosts", "hosts.txt:3"
};

/// Reads "a:4,b:4,node[1-3]:2,[fd00::1]:4"; a host without a number has one slot. Throws InvalidArgument, which quotes the item, for anything else,
/// for a host that is named twice and for a number that is not positive.
std::vector<HostEntry> hosts_of_list(std::string_view text, const std::string& place = "--hosts");

/// Reads a file with a host on each line: "host slots=4" (Open MPI, with max_slots) or "host:4" (MPICH). `#` begins a comment. Throws
/// InvalidArgument, which names the file and the line.
std::vector<HostEntry> hosts_of_file(const std::string& path);

/// Returns how many ranks all of them take.
long slots_of(const std::vector<HostEntry>& hosts);

/// Fills the hosts in order with so many ranks, and leaves out those that get none. Throws InvalidArgument where there are not enough slots.
void limit_ranks(std::vector<HostEntry>& hosts, int ranks);

/// Returns the name without "USER@".
std::string bare_name(const std::string& name);

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
