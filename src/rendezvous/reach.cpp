#include "rendezvous/reach.h"

#include <limits>
#include <sstream>

#include <fmt/format.h>

#include "base/log.h"
#include "base/printable.h"
#include "base/tls.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/own_address.h"
#include "rendezvous/plan.h"
#include "rendezvous/record.h"
#include "store/authentication.h"
#include "store/relay.h"
#include "unisono/detail/launcher_store.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::SocketAddress;

constexpr std::string_view relay_key = "unisono/store/relay", relay_encryption_key = "unisono/store/relay/encryption";
constexpr int agent_candidates = 16;  ///< ports that are tried beside that of torchrun's agent

/// Returns what both sides of a connection at these addresses prove.
store::ConnectOptions proofs_at(const std::vector<SocketAddress>& addresses, const std::string& tag, const base::Environment& environment) {
  store::ConnectOptions options{.token = store::token_for(addresses, std::nullopt, environment), .job_tag = tag};
  options.tls = store::tls_for(options.token, environment);
  return options;
}

using base::Environment;

std::string required(const Environment& environment, std::string_view name) {
  auto text = environment.get(name);
  if (!text) throw InvalidArgument(fmt::format("{} is not set, and env:// needs it", name), info("start the program with `unisono run`, or set it"));
  return *text;
}

std::uint16_t checked_port(int port) {
  if (port < 1 || port > std::numeric_limits<std::uint16_t>::max())
    throw InvalidArgument(fmt::format("MASTER_PORT is {}; a port is 1 to 65535", port), info({}));
  return static_cast<std::uint16_t>(port);
}

// The variables come first. Without them the tasks of one node need no address at all, and those of several nodes meet at the first node.
Meeting meeting_of_slurm_tasks(const EnvironmentIdentity& identity, const Environment& environment, const base::Deadline& deadline) {
  const SlurmPlace& place = *identity.slurm;
  const auto address = environment.get("MASTER_ADDR");
  const auto port = environment.get_int("MASTER_PORT");
  if (place.one_node && !address && !port) return meeting_on_this_host(job_tag(identity));
  const std::string host = address.value_or(place.one_node ? "127.0.0.1" : place.host);
  return meeting_at(Address(host, port ? checked_port(*port) : place.port, deadline),
                    has_several_hosts(identity) ? Reach::several_hosts : Reach::unknown, job_tag(identity), environment);
}

}  // namespace

std::shared_ptr<store::Client> Meeting::serve() const {
  base::FileDescriptor listening = listen_();
  const SocketAddress address = base::local_address(listening.get());
  if (address.family() != AF_UNIX) base::info(fmt::format("the job's store listens on {}", describe(address)));
  return store::serve(std::move(listening), place_, {.token = options_.token, .job_tag = options_.job_tag, .tls = options_.tls});
}

std::shared_ptr<store::Client> Meeting::connect(const base::Deadline& deadline) const {
  return store::connect_tcp(addresses_, place_, options_, deadline);
}

std::string job_tag(const EnvironmentIdentity& identity) {
  if (identity.job_id.empty()) return {};
  return store::digest(fmt::format("unisono job {}\n{}", identity.job_id, identity.attempt));
}

Meeting meeting_at(const Address& address, Reach reach, const std::string& tag, const base::Environment& environment) {
  for (const SocketAddress& each : address.resolved) {
    if (each.is_multicast()) throw InvalidArgument(fmt::format("{} is a multicast address, where no store can listen", describe(each)));
  }
  if (reach == Reach::several_hosts) check_reachable(address.name, address.resolved);
  return {"the store at " + base::describe(address.name, address.port()), address.resolved, proofs_at(address.resolved, tag, environment),
          [=, &environment] { return store::listen_on(addresses_to_listen_on(address.name, address.resolved, environment)); }};
}

bool is_on_one_host(const EnvironmentIdentity& identity) {
  return identity.local_world_size && identity.world_size && identity.local_world_size->value == identity.world_size->value;
}

bool has_several_hosts(const EnvironmentIdentity& identity) {
  if (identity.slurm) return !identity.slurm->one_node;
  return identity.local_world_size && identity.world_size && identity.local_world_size->value < identity.world_size->value;
}

Meeting meeting_on_this_host(const std::string& name) {
  const SocketAddress address = SocketAddress::abstract_unix("unisono-" + name);
  return {"the store at " + describe(address), {address}, {}, [address] { return store::listen_on({address}); }};
}

Meeting meeting_beside_agent(const std::string& host, std::uint16_t port, const EnvironmentIdentity& identity, const base::Environment& environment,
                             const base::Deadline& deadline) {
  const bool one_host = is_on_one_host(identity);
  // The agent of each host counts only the restarts that it has caused itself.
  const int attempt = one_host ? identity.attempt : 0;
  // Runs may share an id ("none" is torchrun's own default), but not the port of their agent.
  const std::string tag = store::digest(fmt::format("unisono run {}\n{}\n{}\n{}", identity.job_id, attempt, host, port));
  if (one_host) return meeting_on_this_host(tag);
  const auto resolved = base::resolve(host, port, deadline);
  check_reachable(host, resolved);
  std::vector<SocketAddress> addresses;
  for (int i = 1; i <= agent_candidates && port + i <= std::numeric_limits<std::uint16_t>::max(); ++i) {
    for (const SocketAddress& address : resolved) addresses.push_back(address.with_port(static_cast<std::uint16_t>(port + i)));
  }
  store::ConnectOptions options = proofs_at(addresses, tag, environment);
  options.strangers_expected = true;
  return {fmt::format("the store at {}, ports {} to {}", host, port + 1, port + agent_candidates), addresses, std::move(options),
          [addresses] { return store::listen_on(addresses); }};
}

void tell_of_store(store::StoreServer& launcher_store, const SocketAddress& address, const base::Secret& token, std::string_view job_tag,
                   std::string_view prefix) {
  launcher_store.set_secret("unisono/store/token", token);
  launcher_store.set("unisono/store/tag", job_tag);
  launcher_store.set("unisono/store/prefix", prefix);
  launcher_store.set("unisono/store/port", std::to_string(address.port()));
  launcher_store.set("unisono/store/host", address.host());
}

std::string encryption_settings(const base::Environment& environment) {
  const base::TlsOptions tls = base::tls_options(environment);
  return fmt::format("{}\n{}\n{}\n{}", tls.word(), tls.certificate, tls.private_key, tls.authority);
}

void relay_to_store(store::StoreServer& launcher_store, RelayConnection connection) {
  store::relay_to(launcher_store, std::move(connection.client));
  launcher_store.set(relay_encryption_key, connection.encryption);
  launcher_store.set(relay_key, connection.own.host());
}

namespace {

/// Returns a connection to the job's store through that of this host's launcher. Null where the launcher offers none, is in another network
/// namespace, or would encrypt in another way than this process is told to.
std::shared_ptr<store::Client> connect_by_relay(Store& launcher_store, const SocketAddress& of_store, const std::string& place,
                                                const base::Deadline& deadline) {
  const auto& environment = base::Environment::process();
  const auto own = launcher_store.try_get(relay_key);
  const auto job_id = environment.get("UNISONO_JOB_ID");
  if (!own || !job_id || launcher_store.try_get(relay_encryption_key) != encryption_settings(environment)) return nullptr;
  const SocketAddress launcher = launcher_address(*job_id, environment.get_int("UNISONO_ATTEMPT").value_or(0));
  const store::Attempt attempt = store::try_connect_store(launcher, place, {}, deadline);
  if (!attempt.client || !attempt.client->ask_for_relay()) return nullptr;
  attempt.client->set_addresses({.own = base::resolve(*own, 0).front(), .store = of_store});
  return attempt.client;
}

}  // namespace

std::optional<JobStore> store_of_launchers(Store& launcher_store, const base::Deadline& deadline) {
  const auto host = launcher_store.try_get("unisono/store/host");
  if (!host) return std::nullopt;
  const auto said = [&](std::string_view name) { return launcher_store.try_get(fmt::format("unisono/store/{}", name)).value_or(""); };
  const Address address(*host, static_cast<std::uint16_t>(std::stoi(said("port"))), deadline);
  JobStore store{.client = {}, .prefix = said("prefix"), .token = base::Secret::taking(said("token"))};
  const std::string place = "the launchers' store at " + base::describe(address.name, address.port());
  store.client = connect_by_relay(launcher_store, address.resolved.front(), place, deadline);
  if (store.client) return store;
  const base::Secret token = store.token == "none" ? base::Secret() : store.token;
  store.client = store::connect_tcp(address.resolved, place,
                                    {.token = token, .job_tag = said("tag"), .tls = store::tls_for(token, base::Environment::process())}, deadline);
  return store;
}

void throw_if_a_rank_ended(Store& launcher_store, EndsThatCount which) {
  const auto text = launcher_store.try_get("unisono/exit/first");  // "2 exit 7", "2 signal 9", "2 exit 0 done"
  if (!text || (which == EndsThatCount::before_finalize && text->ends_with(done_mark))) return;
  std::istringstream fields(*text);
  int rank = -1, number = 0;
  std::string kind;
  fields >> rank >> kind >> number;
  if (kind == "lost") {
    throw PeerFailed(fmt::format("the launcher of rank {} and the other ranks of its host is lost, before all ranks had joined", rank),
                     {.operation = "initialize", .culprit = rank}, PeerFailed::Cause::disconnected);
  }
  const bool killed = kind == "signal";
  const std::string how = killed ? "was killed by " + base::signal_name(number) : fmt::format("exited with code {}", number);
  throw PeerFailed(fmt::format("rank {} {} before all ranks had joined", rank, how), {.operation = "initialize", .culprit = rank},
                   killed ? PeerFailed::Cause::killed : PeerFailed::Cause::exited);
}

Meeting meeting_by_environment(const EnvironmentIdentity& identity, int rank, const Environment& environment, const base::Deadline& deadline) {
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

namespace unisono {

std::shared_ptr<Store> detail::launcher_store(int rank, int world_size, const std::string& place, std::chrono::milliseconds timeout) {
  const auto& environment = base::Environment::process();
  if (!rendezvous::is_launched_as(environment, rank, world_size)) return nullptr;
  const auto launcher = rendezvous::store_of_own_launcher(environment, base::Deadline(timeout));
  if (!launcher) return nullptr;
  const rendezvous::JoinTimeout bounded(*launcher, timeout);
  if (const auto job = rendezvous::store_of_launchers(*launcher, base::Deadline(timeout)))
    return std::make_shared<PrefixStore>(job->prefix + "/" + place, job->client);
  // Ranks of other hosts have launchers, and stores, of their own.
  if (environment.get_int("LOCAL_WORLD_SIZE").value_or(world_size) < world_size) return nullptr;
  return std::make_shared<PrefixStore>(place, launcher);
}

}  // namespace unisono
