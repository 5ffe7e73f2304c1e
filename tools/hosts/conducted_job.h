#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hosts/host_list.h"
#include "launch/job/supervisor.h"

namespace unisono::tools {

/// A job whose launchers this process starts on several hosts.
struct ConductedJob {
  std::vector<HostEntry> hosts;
  std::string start_command;           ///< --ssh
  std::string folder;                  ///< where the ranks run, on every host
  std::vector<std::string> variables;  ///< "NAME=VALUE", for every host
  std::string master_addr;             ///< empty: the address by which host 0 was reached
  int master_port = 0;                 ///< 0: any that is free there
  base::Secret secret;                 ///< empty: one is made
  /// Returns the words of `unisono` for a host, but for those that name the hosts and the place where they meet.
  std::function<std::vector<std::string>(const HostEntry&)> words;
  const launcher::JobOptions* options = nullptr;  ///< signals, standard input, silence, grace, environment
};

/// Runs the job to its end and leaves nothing behind on any host. Returns the exit code: that of the first cause, 128 + signal after Ctrl-C and the
/// like, 1 where a host is lost or cannot be used.
int conduct(const ConductedJob& job);

}  // namespace unisono::tools
