#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hosts.h"

namespace unisono::testing {

/// Two hosts with a real Slurm: slurmctld and munged on host0, a slurmd with four processors on each. Settings, keys, state and logs lie in a folder
/// of its own; no service of the system is used, and nothing of it is changed. Gone with this object, with all that Slurm has started.
class SlurmCluster {
 public:
  SlurmCluster();
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  /// The reason why there is none on this system; empty: there is.
  const std::string& why_not() const { return why_not_; }
  const std::string& folder() const { return folder_.path(); }
  const Hosts& hosts() const { return *hosts_; }
  /// A command of Slurm's on host0, in the cluster's folder, with a token for the ranks.
  std::unique_ptr<RunningCommand> start(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables = {}) const;
  /// The processes on both hosts that were not there when the cluster was made.
  std::set<pid_t> started_processes() const;
  /// What the daemons have written.
  std::string logs() const;

 private:
  void start_daemons();
  bool both_are_idle() const;
  std::set<pid_t> processes() const;

  TemporaryFolder folder_;
  std::unique_ptr<Hosts> hosts_;
  std::vector<std::unique_ptr<RunningCommand>> daemons_;
  std::set<pid_t> own_processes_;
  std::string why_not_;
};

}  // namespace unisono::testing
