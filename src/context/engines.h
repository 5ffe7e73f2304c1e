#pragma once

#include <memory>
#include <string>
#include <vector>

#include "context/state.h"
#include "base/deadline.h"
#include "base/environment.h"
#include "group/group_core.h"

namespace unisono::context {

/// What the groups of a job run on.
struct Selection {
  std::string asked;            // for host memory: a name, or "auto"
  std::string host;             // what that came to between the ranks of the world
  std::string device;           // the engine of device memory; empty: there is none
  bool device_at_need = false;  // nobody asked for it by name
};

/// The ranks of the world before there is one; in a world of one nobody is asked.
struct Joining {
  int rank = 0, world_size = 1;
  Store& store;
  const base::Deadline& deadline;
};

/// From what the program asked for, UNISONO_BACKEND where it asked for nothing in particular, and where the ranks are. `auto` is the native engine on
/// one host; between hosts it is mpi in a job that an MPI started, else tcp, and says so once; nccl serves device memory wherever it can
/// be used. Throws what `engines::maker` throws, and BackendUnavailable for native between hosts.
Selection select_engines(const InitOptions& options, const base::Environment& environment, const Topology& topology, Launcher launcher,
                         const Joining& joining);

/// Of a group for which a backend was asked for, beside the world's own. `hosts`: of its members, several of them. Throws as `select_engines`.
Selection select_for_group(const Selection& of_world, const std::string& backend, const std::vector<int>& hosts);

/// The name of the engine of host memory of a group. Where nobody asked for a particular one, a group on one host gets the native engine. `hosts`: of
/// its members.
std::string engine_of_group(const Selection& selection, const std::vector<int>& hosts);

/// Makes the core of a group. Collective over its members.
std::unique_ptr<group::GroupCore> make_group_core(const Selection& selection, const group::CoreOptions& options);

}  // namespace unisono::context
