#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/environment.h"
#include "launch/process/signals.h"
#include "launch/process/watchdog.h"

namespace unisono::tools {

/// A way to start the ranks of a measurement, and the peers measured in them beside unisono and the roofline.
struct BenchSetup {
  std::string name = {};                             ///< plain, openmpi, mpich
  std::string driver = {};                           ///< the program that every rank runs
  std::vector<std::string> launcher = {};            ///< the command in front of it
  std::vector<std::string> peers = {};               ///< the peers of this set
  std::map<std::string, std::string> versions = {};  ///< versions of the peers
};

/// Sorts the peers asked for into process sets: one for each MPI, else a plain one; Gloo goes into the first. `oversubscribed`: more ranks than
/// cores. Throws InvalidArgument for an unknown peer, LaunchFailed with what to install for one that is missing on this machine.
std::vector<BenchSetup> bench_setups(const std::vector<std::string>& peers, int ranks, bool oversubscribed, const base::Environment& environment,
                                     const launcher::SignalScope& signals, const launcher::Watchdog& watchdog);

}  // namespace unisono::tools
