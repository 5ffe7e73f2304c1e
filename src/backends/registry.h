#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unisono/backend.h"
#include "unisono/engine.h"

namespace unisono::backends {

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
/// InvalidArgument for an unknown name, BackendUnavailable for one that cannot run here.
BackendFactory factory(std::string_view name);

/// The engine of a device, from a plug-in or registered. As `factory`.
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

}  // namespace unisono::backends
