#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/socket.h"
#include "rendezvous/identity.h"
#include "rendezvous/join.h"
#include "rendezvous/presence.h"
#include "rendezvous/rendezvous.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

/// The parts of an init_method: env://, tcp://host:port, tcp://[v6]:port, file:///path, etcd://host:port,host:port/prefix, each
/// with ?rank=…&world_size=… behind, etcd:// with ttl=… as well.
struct Url {
  enum class Scheme { env, tcp, file, etcd };
  Scheme scheme = Scheme::env;
  std::string host;        ///< tcp
  std::uint16_t port = 0;  ///< tcp
  std::string path;        ///< file; etcd: the whole URL, which store/etcd/location.h reads
  std::optional<int> rank, world_size;
};

/// Throws InvalidArgument, with the text, for any other form.
Url parse_url(std::string_view text);

/// The task of this process, after argument, URL and environment were merged.
struct Plan {
  explicit Plan(const base::Environment& variables) : environment(variables) {}
  const base::Environment& environment;
  std::optional<int> rank;
  int world_size = 1;
  JobIdentity identity;  ///< all but the store and the members
  std::string group_name, library;
  std::chrono::milliseconds timeout{};
  std::string place = "a store that rank 0 serves";  ///< the meeting place, for the log
  bool store_may_end = false;
};

/// A value and its source.
struct Said {
  int value = 0;
  std::string_view source;
};

inline std::optional<Said> said(std::optional<int> value, std::string_view source) {
  return value ? std::optional(Said{*value, source}) : std::nullopt;
}
inline std::optional<Said> said(const std::optional<Given>& given) {
  return given ? std::optional(Said{given->value, given->variable}) : std::nullopt;
}
inline std::optional<int> value(const std::optional<Said>& said) { return said ? std::optional(said->value) : std::nullopt; }

/// Merges a value from two sources. Both may give it, but must not differ.
std::optional<Said> agree(std::string_view what, const std::optional<Said>& first, const std::optional<Said>& second);

/// Refuses numbers that no job can have, before any rank is waited for.
void check_range(const Plan& plan);

/// Makes the plan of a program that says itself where the ranks meet.
Plan explicit_plan(const JobRequest& request, std::optional<int> rank, std::optional<int> world_size, const base::Environment& environment);

/// Limits every call to one of our stores by the timeout of the join. Afterwards the store has a timeout of its own again.
class JoinTimeout {
 public:
  /// The deadline that holds afterwards: the store's own, or the shorter one of both.
  enum class Afterwards { as_before, at_most };

  JoinTimeout(Store& store, std::chrono::milliseconds timeout, Afterwards afterwards = Afterwards::as_before)
      : store_(store), afterwards_(afterwards == Afterwards::as_before ? store.timeout() : std::min(store.timeout(), timeout)) {
    store.set_timeout(timeout);
  }
  ~JoinTimeout() { store_.set_timeout(afterwards_); }
  JoinTimeout(const JoinTimeout&) = delete;
  JoinTimeout& operator=(const JoinTimeout&) = delete;

 private:
  Store& store_;
  std::chrono::milliseconds afterwards_;
};

/// The owner of a store. The caller's own store keeps its timeout.
enum class Owner { library, caller };

/// The end of this process's part in the job.
class Departure {
 public:
  Departure(std::shared_ptr<Store> store, std::string seat, std::shared_ptr<Presence> presence, Owner owner);
  /// Leaves the job, which takes at most that long where the store does not answer any more; later calls do nothing.
  void leave(std::chrono::milliseconds at_most) noexcept;

 private:
  const Owner owner_;
  std::once_flag once_;
  std::shared_ptr<Store> store_;
  std::string seat_;
  std::shared_ptr<Presence> presence_;
};

/// This side's address on the way to the store, where the store is on TCP.
using Route = std::optional<base::SocketAddress>;

/// Completes the identity of a process that has joined. `store`: where it has joined; `view`: what the job sees of it, as a rule its own part of it.
JobIdentity settle(Plan plan, Joined joined, const std::shared_ptr<Store>& store, const Route& route = {}, std::shared_ptr<Presence> presence = {},
                   Owner owner = Owner::library, std::shared_ptr<Store> view = {});

/// Returns the request by which this process joins as the plan says.
JoinRequest join_request(const Plan& plan);

/// Checks that the ranks can prove to each other that they belong to the job. Those of several hosts need a secret that does not pass through the
/// store where they have met, since others may be able to read that one: the job's token. Ranks of one host need none. Throws InvalidArgument, also
/// where UNISONO_TLS asks for encryption and there is no key.
void check_secret(const JobIdentity& identity, const base::Environment& environment);

}  // namespace unisono::rendezvous
