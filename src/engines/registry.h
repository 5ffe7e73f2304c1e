#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/tcp/link.h"
#include "unisono/engine.h"

namespace unisono::engines {

/// What is known of a name that may be asked for.
struct Availability {
  bool known = false;
  bool available = false;
  std::string why_not;  // where it is known, but cannot run here
};

/// How far one looks: the runtime of a device, once it is started, is lost to the children that a process forks.
enum class Look {
  from_outside,  ///< by a process that may yet fork ranks: starts nothing
  as_a_rank,     ///< by a process that joins a job
};
Availability availability(std::string_view name, Look look = Look::from_outside);
/// Names of all that can run here, in order of preference on one host.
std::vector<std::string> available(Look look = Look::from_outside);
/// How the engine of host memory of a group is made.
struct EngineMaker {
  /// The ranks of a host have one in shared memory in any case (coordination/coordination.h), and this says that it is the group's: `make` is empty
  /// then.
  bool is_shared_memory = false;
  /// As from a plug-in, or on connections of ours: the link, for an engine that connects all.
  std::function<std::unique_ptr<Engine>(const EngineOptions& options, const std::shared_ptr<transport::Link>& link)> make = {};
  EngineTraits traits = {};
  bool connects_all = false;  ///< it works on the link, and needs it between the ranks of a host too
};
/// InvalidArgument for an unknown name, BackendUnavailable for one that cannot run here.
EngineMaker maker(std::string_view name);

/// The engine of a device, from a plug-in or registered. As `maker`.
EngineFactory device_factory(std::string_view name, Look look = Look::as_a_rank);

/// What was asked for ("auto", "native", "nccl", "CPU:native,cuda:nccl", any case): the backend of host memory, which may be "auto", and the engine
/// of device memory; empty: none was asked for.
struct Request {
  std::string host, device;
};
/// InvalidArgument for what is no such request; BackendUnavailable for an engine of devices that cannot run here.
Request parse_request(std::string_view request, Look look = Look::from_outside);
/// "auto" and every name that parse_request would know, be it usable here or not. Loads no plug-in.
std::vector<std::string> known_names();
/// Checks a request as far as that is possible without loading anything, so that a launcher can say it for its ranks: InvalidArgument where it is
/// malformed or has a name that is not known here.
void check_names(std::string_view request);
inline std::string host_backend(std::string_view request, Look look = Look::from_outside) { return parse_request(request, look).host; }

}  // namespace unisono::engines
