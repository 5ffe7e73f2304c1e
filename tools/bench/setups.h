#pragma once

#include <map>
#include <string>
#include <vector>

namespace unisono::tools {

/// A way to start the ranks of a measurement, and the peers measured in them beside unisono and the roofline.
struct BenchSetup {
  std::string name = {};                              ///< plain, openmpi, mpich, or that of an MPI in a folder: openmpi-5
  std::string driver = {};                            ///< the program that every rank runs
  std::vector<std::string> launcher = {};             ///< the command in front of it
  std::string library = {};                           ///< the MPI's file; empty: the system's own, or none
  std::vector<std::string> peers = {};                ///< the peers of this set
  std::map<std::string, std::string> versions = {};   ///< versions of the peers
  std::map<std::string, std::string> variables = {};  ///< of the environment, unless it has them already
};

/// Sorts the peers asked for into process sets: one for each MPI, else a plain one; Gloo goes into the first. `oversubscribed`: more ranks than
/// cores. Throws InvalidArgument for an unknown peer and for a folder without an MPI that can be measured, LaunchFailed with what to install for one
/// that is missing on this machine.
std::vector<BenchSetup> bench_setups(const std::vector<std::string>& peers, int ranks, bool oversubscribed);

}  // namespace unisono::tools
