#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "transport/tcp/link.h"
#include "unisono/engine.h"

namespace unisono::engines {

/// The state of a name that may be requested.
struct Availability {
  bool known = false;
  bool available = false;
  std::string why_not;  // where it is known, but cannot run here
};

/// Tells how much may be started: children forked from a process that has started a device's runtime cannot use it.
enum class Look {
  from_outside,  ///< by a process that may still fork ranks: starts nothing
  as_a_rank,     ///< by a process that joins a job
};
Availability availability(std::string_view name, Look look = Look::from_outside);
/// Returns why `auto` should not take the engine between hosts; empty: it should.
std::string why_not_auto(std::string_view name);
/// Returns the names of all that can run here, in order of preference on one host.
std::vector<std::string> available(Look look = Look::from_outside);
/// Makes a group's engine of host memory.
struct EngineMaker {
  /// The group uses the shared-memory engine, which the ranks of a host have in any case (coordination/coordination.h). `make` is empty then.
  bool is_shared_memory = false;
  /// Makes an engine of a plug-in, or one on our connections: `link` is for an engine that connects all ranks.
  std::function<std::unique_ptr<Engine>(const EngineOptions& options, const std::shared_ptr<transport::Link>& link)> make = {};
  EngineTraits traits = {};
  bool connects_all = false;  ///< it works on the link, and needs it between the ranks of a host too
  std::function<void(const base::Environment&)> check_settings = {};
};
/// Lets every engine read its variables of the environment. Throws InvalidArgument where one cannot be read, before any rank is waited for.
void check_settings(const base::Environment& environment);
/// Throws InvalidArgument for an unknown name, BackendUnavailable for one that cannot run here.
EngineMaker maker(std::string_view name);

/// Describes the device of this process, as an engine of devices that can run here chooses it. An engine that does not tell has a device without an
/// address.
OwnDevice own_device(std::string_view name, int local_rank);

/// Returns the engine of a device, from a plug-in or registered. Throws as `maker` does.
EngineFactory device_factory(std::string_view name, Look look = Look::as_a_rank);

/// The result of parse_request: the backend of host memory, which may be "auto", and the engine of device memory; empty: none was requested.
struct Request {
  std::string host, device;
};
/// Reads a request: "auto", "native", "nccl", "CPU:native,cuda:nccl", in any case. Throws InvalidArgument for any other form, and BackendUnavailable
/// for an engine of devices that cannot run here.
Request parse_request(std::string_view request, Look look = Look::from_outside);
/// Returns "auto" and every name that parse_request knows, usable here or not. Loads no plug-in.
std::vector<std::string> known_names();
/// Checks a request as far as possible without loading anything, so that a launcher can report errors for its ranks. Throws InvalidArgument where it
/// is malformed or has an unknown name.
void check_names(std::string_view request);
inline std::string host_backend(std::string_view request, Look look = Look::from_outside) { return parse_request(request, look).host; }

}  // namespace unisono::engines
