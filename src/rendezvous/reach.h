#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/socket.h"
#include "rendezvous/identity.h"
#include "store/client.h"

namespace unisono::rendezvous {

/// Where a job's store is: rank 0 serves it there, the others come to it.
class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual std::shared_ptr<store::Client> serve() const = 0;
  /// One connection, with retries up to the deadline.
  virtual std::shared_ptr<store::Client> connect(const base::Deadline& deadline) const = 0;
  /// As messages call it: "the store at 127.0.0.1:29500".
  virtual std::string place() const = 0;
};

/// An address that everybody knows. Its name is looked up until it is found, and once only then.
struct Address {
  Address(std::string host, std::uint16_t port, const base::Deadline& deadline)
      : name(std::move(host)), resolved(base::resolve(name, port, deadline)) {}
  std::string name;
  std::vector<base::SocketAddress> resolved;
  std::uint16_t port() const { return resolved.front().port(); }
};

/// Whether ranks of other hosts are to come, as far as the environment says: then a loopback address is refused.
enum class Reach { unknown, several_hosts };
std::unique_ptr<Meeting> meeting_at(const Address& address, Reach reach, const std::string& job_tag, const base::Environment& environment);

/// An abstract local socket of that name: no port that could be taken, and none but this user can reach it.
std::unique_ptr<Meeting> meeting_on_this_host(const std::string& name);

/// Under torchrun whose agent holds MASTER_PORT with a store of its own, which speaks another language. Where the environment says that all ranks are
/// on this host, an abstract local socket named after the run: no port that could be taken, none but this user can reach it. With several hosts, the
/// first free one of the ports that follow MASTER_PORT on MASTER_ADDR; the others find it by trying, and the run's tag tells them that it is theirs.
std::unique_ptr<Meeting> meeting_beside_agent(const std::string& host, std::uint16_t port, const EnvironmentIdentity& identity,
                                              const base::Environment& environment, const base::Deadline& deadline);

/// True where the environment says that this host's ranks are not all.
bool has_several_hosts(const EnvironmentIdentity& identity);

/// Where `unisono run` of several hosts has made a store for all their ranks, and told its own ranks so: a connection to it.
struct JobStore {
  std::shared_ptr<store::Client> client;
  std::string prefix;  ///< of this attempt's keys
  std::string token;   ///< the job's secret, or "none"
};
std::optional<JobStore> store_of_launchers(Store& launcher_store, const base::Deadline& deadline);
/// What a launcher tells its ranks for that.
void tell_of_store(const std::function<void(std::string_view key, std::string_view value)>& set, const base::SocketAddress& address,
                   std::string_view token, std::string_view job_tag, std::string_view prefix);

/// The connection that `unisono run` handed down, as UNISONO_LAUNCHER_FD says. One for the process's life: later calls give the same store.
std::shared_ptr<Store> launcher_store(int fd);

/// The same, for a world that did not meet by the launcher but may be the job that it has started. Null unless this very process was started by a
/// launcher, as that rank of that many: a process that it has started in turn has another parent, and the number may mean anything to it.
std::shared_ptr<Store> store_of_own_launcher(const base::Environment& environment, int rank, int world_size);

/// PeerFailed if the launcher has seen a rank end: whoever waits for all of them to come waits in vain.
void throw_if_a_rank_ended(Store& launcher_store);

/// Names one job (and attempt) among others, in 64 characters; empty where nobody named it.
std::string job_tag(const EnvironmentIdentity& identity);

}  // namespace unisono::rendezvous
