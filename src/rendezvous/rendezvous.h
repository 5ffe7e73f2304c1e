#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "rendezvous/carried.h"
#include "rendezvous/identity.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

/// Of calls where nobody said another.
inline constexpr std::chrono::milliseconds default_timeout = std::chrono::minutes(30);

struct JobRequest {
  std::string init_method = "env://";
  std::optional<int> rank = {}, world_size = {}, local_rank = {};
  std::string group_name = {};
  std::chrono::milliseconds timeout = default_timeout;
  std::shared_ptr<Store> store = {};  ///< instead of init_method
  /// Of a given store: whoever serves it may end before this process is done with the job. Nothing is written to it once all have come.
  bool store_may_end = false;
  FindBootstrap find_bootstrap = {};  ///< of ranks that an MPI's launcher started
};

/// One process of the job, as it presented itself.
struct Member {
  int rank = -1;
  int pid = 0;
  std::string host = {};     ///< its name
  std::string machine = {};  ///< see base::machine_id
};

struct JobIdentity {
  int rank = 0, world_size = 1;
  std::optional<int> local_rank, local_world_size, node_rank;  ///< as the launcher or the caller said; unset where nobody did
  /// Under `unisono run` the launcher's store as it is; elsewhere the job's own part of the store. Where this process serves it, it serves as long as
  /// this lives.
  std::shared_ptr<Store> store;
  std::shared_ptr<Store> launcher_store;  ///< of our launcher on this host, which wants to know how its ranks fare; null elsewhere
  Launcher launcher = Launcher::none;
  std::string job_id;
  std::vector<Member> members;        ///< by rank
  std::string address = "127.0.0.1";  ///< numeric, of this rank, by which the others reach it
  /// The job's secret, or "none", as the launcher or UNISONO_TOKEN says; for `store::token_for`, by which every connection of ours goes.
  std::optional<std::string> token;
  int generation = 1;         ///< tells this meeting from others that the same store has carried
  bool serves_store = false;  ///< the store ends with this process's `store`: the others must be done with it first
  /// Says that this process is done with the job, so that the same store or file can carry another one; the last one removes a file. To be called
  /// in finalize while the store can still be reached (or when the last copy of `store` goes, which does the same). Never throws; later calls do
  /// nothing.
  std::function<void()> leave = [] {};
};

/// Finds the other processes of the job and waits for them. Returns when all of them have come. A process that nothing names more of is alone,
/// and gets a store of its own. Throws, and leaves nothing open but the connection that a launcher handed down, which lives as long as the process:
///   InvalidArgument  contradicting, missing or impossible ranks, sizes and addresses; a rank that another process has; a port in use
///   Mismatch         ranks that disagree about the world size
///   ProtocolError    another version, another token, or somebody else at the address
///   Timeout          ranks that did not come (`missing()`), or a store that nobody serves
///   PeerFailed       the store went away meanwhile
JobIdentity meet(const JobRequest& request, const base::Environment& environment);

/// How long `meet` waits: the request's timeout; where that is the default, UNISONO_TIMEOUT (whole seconds) or, without it, 120 s.
std::chrono::milliseconds join_timeout(std::chrono::milliseconds requested, const base::Environment& environment);

}  // namespace unisono::rendezvous
