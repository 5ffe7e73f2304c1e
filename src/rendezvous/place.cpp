#include "rendezvous/place.h"

#include <limits>

#include <fmt/format.h>

#include "rendezvous/error_info.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::Environment;

std::string required(const Environment& environment, std::string_view variable) {
  auto text = environment.get(variable);
  if (!text)
    throw InvalidArgument(fmt::format("{} is not set, and env:// needs it", variable), info("start the program with `unisono run`, or set it"));
  return *text;
}

std::uint16_t checked_port(int port) {
  if (port < 1 || port > std::numeric_limits<std::uint16_t>::max())
    throw InvalidArgument(fmt::format("MASTER_PORT is {}; a port is 1 to 65535", port), info({}));
  return static_cast<std::uint16_t>(port);
}

// The variables come first. Without them the tasks of one node need no address at all, and those of several nodes meet at the first node.
std::unique_ptr<Meeting> meeting_of_slurm_tasks(const EnvironmentIdentity& identity, const Environment& environment, const base::Deadline& deadline) {
  const SlurmPlace& place = *identity.slurm;
  const auto address = environment.get("MASTER_ADDR");
  const auto port = environment.get_int("MASTER_PORT");
  if (place.one_node && !address && !port) return meeting_on_this_host(job_tag(identity));
  const std::string host = address.value_or(place.one_node ? "127.0.0.1" : place.host);
  return meeting_at(Address(host, port ? checked_port(*port) : place.port, deadline),
                    has_several_hosts(identity) ? Reach::several_hosts : Reach::unknown, job_tag(identity), environment);
}

}  // namespace

std::unique_ptr<Meeting> meeting_by_environment(const EnvironmentIdentity& identity, int rank, const Environment& environment,
                                                const base::Deadline& deadline) {
  if (identity.slurm) return meeting_of_slurm_tasks(identity, environment, deadline);
  required(environment, "MASTER_PORT");
  const std::uint16_t port = checked_port(*environment.get_int("MASTER_PORT"));
  // Rank 0 needs no address of itself. Without one it listens on loopback, where the others must connect too.
  const std::string host = rank == 0 ? environment.get("MASTER_ADDR").value_or("127.0.0.1") : required(environment, "MASTER_ADDR");
  if (environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True") return meeting_beside_agent(host, port, identity, environment, deadline);
  return meeting_at(Address(host, port, deadline), has_several_hosts(identity) ? Reach::several_hosts : Reach::unknown, job_tag(identity),
                    environment);
}

}  // namespace unisono::rendezvous
