#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/repeated_texts.h"
#include "base/shared_text.h"
#include "base/socket.h"
#include "rendezvous/identity.h"
#include "unisono/engine.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

/// Joins a job that an MPI's launcher has started (`join`), or returns the job that the program has joined already. Nothing where there is none.
using FindBootstrap = std::function<std::optional<Bootstrap>(bool join)>;

/// The timeout of calls where none was given.
inline constexpr std::chrono::milliseconds default_timeout = std::chrono::minutes(30);

struct JobRequest {
  std::string init_method = "env://";
  std::optional<int> rank = {}, world_size = {}, local_rank = {};
  std::string group_name = {};
  std::chrono::milliseconds timeout = default_timeout;
  std::shared_ptr<Store> store = {};  ///< used instead of init_method
  /// For a given store: its server may end before this process is done with the job. Nothing is written to it once all have come.
  bool store_may_end = false;
  std::string library = {};           ///< must be the same for all ranks, as the version of unisono must
  FindBootstrap find_bootstrap = {};  ///< for ranks that an MPI's launcher started
};

/// A process of the job, as it presented itself. The members of a list share the texts of their hosts.
struct Member {
  int rank = -1;
  int pid = 0;
  base::SharedText host = {};     ///< its name
  base::SharedText machine = {};  ///< see base::machine_id
};

/// Returns the names of the members' hosts, by rank.
inline base::RepeatedTexts host_names(const std::vector<Member>& members) {
  return {members.size(), [&](std::size_t r) -> const std::string& { return members[r].host.get(); }};
}

/// The way to the processes that the launcher starts while the job runs (growth.h).
struct Growth {
  std::shared_ptr<Store> store = {};              ///< the job's, which outlives every rank; null where a job cannot grow
  std::string own_name = {};                      ///< the name that the launcher gave this process
  std::vector<std::string> names = {};            ///< by rank: those of all members; empty: they are their ranks
  int generation = 1;                             ///< how often the members have changed, counted from 1
  std::optional<base::SocketAddress> route = {};  ///< this side's address on the way to the store, where that is on TCP
};

struct JobIdentity {
  int rank = 0, world_size = 1;
  std::optional<int> local_rank, local_world_size, node_rank;  ///< from the launcher or the caller; unset where neither gave it
  /// Under `unisono run` the launcher's store as it is; elsewhere the job's own part of the store. A store that this process serves ends with this
  /// pointer.
  std::shared_ptr<Store> store;
  std::shared_ptr<Store> launcher_store;  ///< of our launcher on this host, which is told how its ranks end; null elsewhere
  Launcher launcher = Launcher::none;
  std::string job_id;                 ///< the same for all members on a host; empty for a process that is alone
  std::vector<Member> members;        ///< by rank
  std::string address = "127.0.0.1";  ///< numeric; the other ranks reach this one by it
  /// The job's secret, or "none", from the launcher or UNISONO_TOKEN; all our connections use it by `store::token_for`.
  std::optional<base::Secret> token;
  int generation = 1;  ///< tells this meeting from others in the same store
  Growth growth = {};
  bool serves_store = false;  ///< the store ends with this process's `store`, so the others must be done with it first
  /// Tells the store that this process is done with the job, so that the same store or file can be used for another one; the last process removes a
  /// file. It is called in finalize while the store can still be reached, or when the last copy of `store` goes. Never throws; later calls do
  /// nothing.
  std::function<void(std::chrono::milliseconds at_most)> leave = [](std::chrono::milliseconds) {};
};

/// Finds the other processes of the job and waits for them. Returns when all of them have come. A process whose environment names no others is alone,
/// and gets a store of its own. After an exception nothing stays open but the connection that a launcher handed down, which lives as long as the
/// process. Throws
///   InvalidArgument  contradicting, missing or impossible ranks, sizes and addresses; a rank that another process has; a port in use
///   Mismatch         ranks that disagree about the world size
///   ProtocolError    another version, another token, or a foreign server at the address
///   Timeout          ranks that did not come (`missing()`), or a store that no process serves
///   PeerFailed       the store went away meanwhile
JobIdentity meet(const JobRequest& request, const base::Environment& environment);

/// Returns how long `meet` waits: the request's timeout; where that is the default, UNISONO_TIMEOUT (whole seconds) or, without it, 120 s.
std::chrono::milliseconds join_timeout(std::chrono::milliseconds requested, const base::Environment& environment);

}  // namespace unisono::rendezvous
