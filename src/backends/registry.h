#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unisono/backend.h"

namespace unisono::backends {

/// What is known of a name that may be asked for.
struct Availability {
  bool known = false;
  bool available = false;
  std::string why_not;  // where it is known, but cannot run here
};

Availability availability(std::string_view name);
/// Names of all that can run here, in order of preference on one host.
std::vector<std::string> available();
/// InvalidArgument for an unknown name, BackendUnavailable for one that cannot run here.
BackendFactory factory(std::string_view name);

/// What was asked for ("auto", "native", "CPU:native,cuda:nccl", any case), reduced to the backend of the host. InvalidArgument for anything else.
std::string host_backend(std::string_view request);

}  // namespace unisono::backends
