// Finds the meeting of ranks that mpirun started, from its variables or through MPI itself.
#include "rendezvous/carried.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <limits>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "base/host.h"
#include "base/log.h"
#include "base/socket.h"
#include "rendezvous/own_address.h"
#include "rendezvous/record.h"
#include "store/authentication.h"
#include "store/client.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::Environment;
using base::SocketAddress;

/// Returns the name that Open MPI's launcher gives to this job on this host: its namespace, and the address of its server. Empty: it gives none.
std::string name_by_pmix(const EnvironmentIdentity& identity, const Environment& environment) {
  const auto name = environment.get("PMIX_NAMESPACE");
  if (identity.launcher != Launcher::openmpi || !name || !is_on_one_host(identity)) return {};
  std::string text = fmt::format("unisono mpirun {}\n{}", ::getuid(), *name);
  for (const std::string_view variable : {"PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2", "PMIX_SERVER_URI"}) {
    text.append("\n").append(environment.get(variable).value_or(""));
  }
  return store::digest(text);
}

/// Returns a name that stands for MPICH's launcher on this host (Intel's as well): it made the socket that each of its ranks has as PMI_FD. Empty
/// where it does not say that the job is on one host, or where the descriptor is something else by now.
std::string name_by_pmi(const EnvironmentIdentity& identity, const Environment& environment) {
  const auto text = environment.get("PMI_FD");
  // The ranks that MPI_Comm_spawn starts may have the launcher of those that called it.
  if (!text || identity.launcher != Launcher::pmi || !identity.rank || !is_on_one_host(identity) || environment.has("PMI_SPAWNED")) return {};
  int fd = -1;
  if (std::from_chars(text->data(), text->data() + text->size(), fd).ec != std::errc() || !base::is_stream_socket(fd, AF_UNIX)) return {};
  const pid_t launcher = base::peer_process(fd);
  if (launcher == 0 || !base::is_descendant(::getpid(), launcher)) return {};
  const std::int64_t life = base::life_of(launcher);
  return life == 0 ? std::string() : store::digest(fmt::format("unisono mpiexec {}\n{}\n{}", ::getuid(), launcher, life));
}

void compare(std::string_view what, const std::optional<Given>& given, int by_mpi) {
  if (!given || given->value == by_mpi) return;
  throw InvalidArgument(fmt::format("the {} is {} by {}, but {} by MPI", what, given->value, given->variable, by_mpi),
                        info("unset the variables of the launcher that is not meant"));
}

/// Rank 0 opens the meeting and broadcasts its text: "local NAME", or "tcp HOST PORT TOKEN" with "-" for a token that all ranks have already.
BootstrapMeeting meet_through(const Bootstrap& bootstrap, const EnvironmentIdentity& identity, const Environment& environment) {
  const std::optional<base::Secret> said = store::said_token(environment);
  const std::string fresh = store::fresh_name();
  const auto listening = std::make_shared<base::FileDescriptor>();  // of rank 0, until it serves the store there
  std::string text;
  if (bootstrap.rank == 0) {
    if (is_on_one_host(identity) || bootstrap.size == 1) {
      text = fmt::format("local {}", fresh);
    } else {
      const std::string host = own_address(environment, std::nullopt, false);
      *listening = store::listen_on(base::resolve(host, 0));
      text = fmt::format("tcp {} {} {}", host, base::local_address(listening->get()).port(), said ? "-" : fresh);
    }
  }
  text = bootstrap.broadcast(text);
  std::istringstream words(text);
  std::string kind, host, token;
  int port = 0;
  words >> kind >> host;
  if (kind == "local") return {.meeting = meeting_on_this_host(host), .bootstrap = bootstrap};
  words >> port >> token;
  if (kind != "tcp" || port < 1 || port > std::numeric_limits<std::uint16_t>::max() || token.empty())
    throw ProtocolError("rank 0 has sent through MPI something that is not a place", info());
  if (token == "-" && !said)
    throw InvalidArgument("rank 0 has been told the job's token, and this rank has not", info("set UNISONO_TOKEN on all ranks"));
  const base::Secret of_job = token == "-" ? *said : base::Secret(token);
  if (token != "-") base::wipe(text);
  base::wipe(token);
  const SocketAddress address = base::resolve(host, static_cast<std::uint16_t>(port)).front();
  const base::Secret asked = of_job == "none" ? base::Secret() : of_job;
  return {.meeting = Meeting("the store at " + describe(address), {address}, {.token = asked, .tls = store::tls_for(asked, environment)},
                             [listening] { return std::move(*listening); }),
          .token = of_job,
          .bootstrap = bootstrap};
}

}  // namespace

bool is_carried(const EnvironmentIdentity& identity, const Environment& environment) {
  const bool by_mpi = identity.launcher == Launcher::openmpi || identity.launcher == Launcher::pmi;
  return by_mpi && !environment.has("UNISONO_LAUNCHER_FD") && !environment.has("MASTER_ADDR") && !environment.has("MASTER_PORT");
}

std::optional<BootstrapMeeting> carried_meeting(EnvironmentIdentity& identity, const Environment& environment, const FindBootstrap& find_bootstrap) {
  for (const auto name_by : {name_by_pmix, name_by_pmi}) {
    if (const std::string name = name_by(identity, environment); !name.empty()) return BootstrapMeeting{.meeting = meeting_on_this_host(name)};
  }
  const auto joined = find_bootstrap ? find_bootstrap(true) : std::nullopt;
  if (!joined) return std::nullopt;
  compare("rank", identity.rank, joined->rank);
  compare("world size", identity.world_size, joined->size);
  if (!identity.rank) identity.rank = Given{joined->rank, "MPI"};
  if (!identity.world_size) identity.world_size = Given{joined->size, "MPI"};
  return meet_through(*joined, identity, environment);
}

}  // namespace unisono::rendezvous
