#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engines/ucx/library.h"

namespace unisono::engines::ucx {

/// A network transport of UCX on one of this host's devices: "rc_verbs" on "mlx5_0:1", "tcp" on "eth0".
struct NetworkTransport {
  std::string name;
  std::string device;
};

/// Returns the network transports that UCX finds on this host, whatever UCX_TLS says.
std::vector<NetworkTransport> network_transports(const Library& library);

/// Tells whether a list of UCX_TLS ("rc,tcp", "^ud", "all", empty: all) admits a transport. The list may name groups: "rc" stands for all transports
/// that begin so, "ib" for all on verbs devices, "shm" for those in shared memory.
bool admits(const std::string& list, const std::string& transport);

/// Says why the group should not run on UCX although nobody asked for another engine; empty: it should, since an RDMA device is here that UCX can
/// use. UCX is only loaded where the kernel has verbs devices.
struct RdmaProbe {
  std::filesystem::path verbs_devices = "/sys/class/infiniband";
  std::string list;                                           ///< UCX_TLS
  std::function<std::vector<NetworkTransport>()> transports;  ///< throws BackendUnavailable where there is no UCX

  static RdmaProbe of_process();
  std::string why_not() const;
};

/// Returns the devices for UCX_NET_DEVICES: RDMA devices, and the interface that has the address, so that UCX's TCP takes the way that unisono takes
/// too. Throws BackendUnavailable where no interface of this host has the address.
std::string devices_for(const std::string& address, const std::vector<NetworkTransport>& transports);

}  // namespace unisono::engines::ucx
