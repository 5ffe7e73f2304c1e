#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/socket.h"
#include "rendezvous/identity.h"
#include "store/client.h"

namespace unisono::rendezvous {

/// The place of a job's store: rank 0 serves it there, and the others connect to it.
class Meeting {
 public:
  /// `place`: the name of the store in messages. `listen` is for rank 0, which opens the place no sooner than it serves the store there.
  Meeting(std::string place, std::vector<base::SocketAddress> addresses, store::ConnectOptions options, std::function<base::FileDescriptor()> listen)
      : place_(std::move(place)), addresses_(std::move(addresses)), options_(std::move(options)), listen_(std::move(listen)) {}
  std::shared_ptr<store::Client> serve() const;
  /// Connects to the store, with retries up to the deadline.
  std::shared_ptr<store::Client> connect(const base::Deadline& deadline) const;
  const std::string& place() const { return place_; }  ///< "the store at 127.0.0.1:29500"

 private:
  std::string place_;
  std::vector<base::SocketAddress> addresses_;
  store::ConnectOptions options_;
  std::function<base::FileDescriptor()> listen_;
};

/// An address that all ranks know. Its name is looked up until it is found, and not again.
struct Address {
  Address(std::string host, std::uint16_t port, const base::Deadline& deadline)
      : name(std::move(host)), resolved(base::resolve(name, port, deadline)) {}
  std::string name;
  std::vector<base::SocketAddress> resolved;
  std::uint16_t port() const { return resolved.front().port(); }
};

/// Tells whether ranks of other hosts are expected, as far as the environment says; a loopback address is refused then.
enum class Reach { unknown, several_hosts };
Meeting meeting_at(const Address& address, Reach reach, const std::string& job_tag, const base::Environment& environment);

/// Returns the meeting at an abstract local socket of that name: no port that could be in use, and no other user can reach it.
Meeting meeting_on_this_host(const std::string& name);

/// Returns the meeting under torchrun, whose agent holds MASTER_PORT with a store of another protocol. Where the environment says that all ranks are
/// on this host, it is an abstract local socket named after the run. With several hosts, it is the first free one of the ports behind MASTER_PORT on
/// MASTER_ADDR; the others find it by trying, and recognise it by the run's tag.
Meeting meeting_beside_agent(const std::string& host, std::uint16_t port, const EnvironmentIdentity& identity, const base::Environment& environment,
                             const base::Deadline& deadline);

/// Returns true where the environment says that all ranks are on this host.
bool is_on_one_host(const EnvironmentIdentity& identity);
/// Returns true where the environment says that there are ranks on other hosts.
bool has_several_hosts(const EnvironmentIdentity& identity);

/// A connection to the store that `unisono run` of several hosts has made for all their ranks.
struct JobStore {
  std::shared_ptr<store::Client> client;
  std::string prefix;  ///< of this attempt's keys
  base::Secret token;  ///< the job's secret, or "none"
};
std::optional<JobStore> store_of_launchers(Store& launcher_store, const base::Deadline& deadline);
/// Tells a launcher's ranks about that store.
void tell_of_store(store::StoreServer& launcher_store, const base::SocketAddress& address, const base::Secret& token, std::string_view job_tag,
                   std::string_view prefix);
/// Returns how this process's connections are encrypted, as its variables say it.
std::string encryption_settings(const base::Environment& environment);
/// A launcher's connection to the job's store, by which it hands its ranks' requests on.
struct RelayConnection {
  std::shared_ptr<store::Client> client;
  base::SocketAddress own;  ///< this host's address on the way
  std::string encryption;   ///< as `encryption_settings` returns it
};
/// Has a launcher's store hand its ranks' requests on to the job's store. The ranks are told of it: those that reach their launcher by its address,
/// and have the same settings for encryption, make no connection of their own. Call it before `tell_of_store`.
void relay_to_store(store::StoreServer& launcher_store, RelayConnection connection);

/// Behind what the launcher says of the first rank that ended, if that one had finalized and exited with 0.
inline constexpr std::string_view done_mark = " done";
/// The ends that a wait for other ranks is in vain after. A rank that has finalized had joined, so ranks that know their members do not miss it.
enum class EndsThatCount { all, before_finalize };
/// Throws PeerFailed if the launcher has seen such an end of a rank.
void throw_if_a_rank_ended(Store& launcher_store, EndsThatCount which = EndsThatCount::all);

/// Returns 64 characters that tell one job (and attempt) from others; empty where the job has no name.
std::string job_tag(const EnvironmentIdentity& identity);

/// Returns the meeting of a job whose environment gives the ranks: at MASTER_ADDR and MASTER_PORT, beside torchrun's agent, or at Slurm's first node.
/// Throws InvalidArgument where neither the variables nor Slurm name a place.
Meeting meeting_by_environment(const EnvironmentIdentity& identity, int rank, const base::Environment& environment, const base::Deadline& deadline);

}  // namespace unisono::rendezvous
