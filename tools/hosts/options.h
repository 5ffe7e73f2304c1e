#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "hosts/host_list.h"
#include "launch/job_options.h"

namespace unisono::tools {

/// What the user says about other hosts.
struct HostFlags {
  std::string hosts, hostfile, ssh, folder;
  std::vector<std::string> exported;
};

/// Adds --hosts, --hostfile and --ssh, which `run` and `doctor` have.
void add_host_options(CLI::App* command, HostFlags& flags);
/// Adds --export and --wdir, which only `run` has: variables and folder of the ranks.
void add_place_options(CLI::App* command, HostFlags& flags);

/// Returns the hosts that were named; empty: none was. Throws InvalidArgument where they are named twice.
std::vector<HostEntry> named_hosts(const HostFlags& flags);
/// Returns --ssh, else "ssh".
std::string ssh_of(const HostFlags& flags);
/// Returns the variables of -x, NAME=VALUE each. Throws InvalidArgument for one that is not set.
std::vector<std::string> exported_variables(const HostFlags& flags, const base::Environment& environment);
/// Returns the variables that every host gets: ours, but for the secret, and those of -x.
std::vector<std::string> forwarded_variables(const HostFlags& flags, const base::Environment& environment);

/// Runs `unisono run` with these options on the hosts. Returns the exit code.
int run_on_hosts(const CLI::App& command, const HostFlags& flags, std::vector<HostEntry> hosts, const std::string& start_command,
                 const launcher::JobOptions& job);

}  // namespace unisono::tools
