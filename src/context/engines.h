#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "context/topology.h"
#include "base/deadline.h"
#include "base/environment.h"
#include "group/group_core.h"
#include "unisono/context.h"

namespace unisono::context {

/// The engines of a job's groups.
struct Selection {
  std::string asked;                      // the name asked for between host memories, or "auto"
  std::string host;                       // the engine chosen between the ranks of the world
  std::string device;                     // the engine of device memory; empty if there is none
  bool device_at_need = false;            // true if nobody asked for the device engine by name
  std::optional<Device> own_device = {};  // the device of this process, where it has one, with and without an engine of its memory
};

/// The parts with which the ranks agree on an engine before the world exists. A world of one does not use them.
struct Joining {
  int rank = 0, world_size = 1;
  Store& store;
  const base::Deadline& deadline;
  int local_rank = 0;
};

/// Chooses from what the program asked for, then UNISONO_BACKEND, then where the ranks are. `auto` is the native engine on one host. Between hosts it
/// is mpi in a job that an MPI started, ucx where all hosts have RDMA devices, else tcp, and a warning says so once. nccl serves device memory
/// where all ranks can use it and no two of them share a device, unless it allows that. Throws what `engines::maker` throws, and BackendUnavailable
/// for native between hosts and for an engine of devices that was asked for by name and cannot serve ranks which share a device.
Selection select_engines(const InitOptions& options, const base::Environment& environment, const Topology& topology, Launcher launcher,
                         const Joining& joining);

/// Chooses for a group that asked for a backend other than the world's. `hosts` holds the host number of each member; there are several members.
/// Throws as `select_engines`.
Selection select_for_group(const Selection& of_world, const std::string& backend, const std::vector<int>& hosts);

/// Returns the name of the engine for host memory of a group. A group on one host gets the native engine unless a particular one was asked for.
/// `hosts` holds the host number of each member.
std::string engine_of_group(const Selection& selection, const std::vector<int>& hosts);

/// Makes the core of a group. Collective over its members.
std::unique_ptr<group::GroupCore> make_group_core(const Selection& selection, const group::CoreOptions& options);

}  // namespace unisono::context
