#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ground/deadline.h"
#include "ground/environment.h"
#include "ground/socket.h"
#include "rendezvous/identity.h"
#include "store/client.h"

namespace unisono::rendezvous {

/// Where a job's store is: rank 0 serves it there, the others come to it.
class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual std::shared_ptr<store::Client> serve() const = 0;
  /// One connection, with retries up to the deadline.
  virtual std::shared_ptr<store::Client> connect(const ground::Deadline& deadline) const = 0;
};

/// At an address that everybody knows.
std::unique_ptr<Meeting> meeting_at(const std::string& host, std::uint16_t port, const std::string& job_tag, const ground::Environment& environment);

/// An abstract local socket of that name: no port that could be taken, and none but this user can reach it.
std::unique_ptr<Meeting> meeting_on_this_host(const std::string& name);

/// Under torchrun whose agent holds MASTER_PORT with a store of its own, which speaks another language. Where the environment says that all ranks are
/// on this host, an abstract local socket named after the run: no port that could be taken, none but this user can reach it. With several hosts, the
/// first free one of the ports that follow MASTER_PORT on MASTER_ADDR; the others find it by trying, and the run's tag tells them that it is theirs.
std::unique_ptr<Meeting> meeting_beside_agent(const std::string& host, std::uint16_t port, const EnvironmentIdentity& identity,
                                              const ground::Environment& environment);

/// The connection that `unisono run` handed down, as UNISONO_LAUNCHER_FD says. One for the process's life: later calls give the same store.
std::shared_ptr<Store> launcher_store(int fd);

/// PeerFailed if the launcher has seen a rank end: whoever waits for all of them to come waits in vain.
void throw_if_a_rank_ended(Store& launcher_store);

/// Names one job (and attempt) among others, in 64 characters; empty where nobody named it.
std::string job_tag(const EnvironmentIdentity& identity);

}  // namespace unisono::rendezvous
