#pragma once

#include <concepts>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/launcher.h"
#include "unisono/process_group.h"
#include "unisono/record.h"
#include "unisono/tensor.h"

namespace unisono {

class Store;

/// The way in which a process joins its job.
///
/// Members that are not set come from the environment of the launcher (`unisono run`, torchrun,
/// mpirun, srun, horovodrun). If program and environment say different things, `initialize` throws
/// InvalidArgument with both.
struct InitOptions {
  /// The engine that carries the calls: auto, serial, native, tcp, gloo, mpi, ucx, nccl, a map such
  /// as "cpu:native,cuda:nccl", or the name of a registered one, in upper or lower case.
  std::string backend = "auto";
  /// The place where the processes meet: "env://", "tcp://host:port" (of rank 0, or a multicast
  /// address), "file:///path", or "etcd://host:port/prefix" (see etcd_store.h).
  std::string init_method = "env://";
  /// The numbers of this process, if no launcher tells them.
  std::optional<int> rank = {}, world_size = {}, local_rank = {};
  /// A name that lets several jobs share a file or a multicast address.
  std::string group_name = {};
  /// The deadline of every call that sets none. If the program leaves the default, UNISONO_TIMEOUT
  /// (in seconds) replaces it.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// A store to meet in, in place of `init_method`. The program then also gives rank and
  /// world_size.
  std::shared_ptr<Store> store = {};
};

/// The meeting of a job by a scheme of the program's own: the store in which the processes meet,
/// and which of them this one is.
struct Rendezvous {
  std::shared_ptr<Store> store;
  int rank = 0, world_size = 1;
};

/// Makes a Rendezvous from the options of `initialize`. It may wait, and throw. `initialize`,
/// `finalize` and `sync` throw InvalidArgument if it calls them.
using RendezvousHandler = std::function<Rendezvous(const InitOptions& options)>;

/// Lets `initialize({.init_method = "SCHEME://…"})` ask this handler from now on.
///
/// @throws InvalidArgument if the scheme is malformed or has a handler already
UNISONO_API void register_rendezvous_handler(std::string_view scheme, RendezvousHandler handler);

/// Joins the job. Every process of the job calls it, and it returns once all have.
///
/// ```cpp
/// unisono::initialize();                             // everything from the launcher
/// unisono::initialize({.backend = "tcp", .timeout = 60s});
/// ```
///
/// A call that fails leaves nothing behind and may be repeated.
///
/// @throws AlreadyInitialized if the process has joined a job already
/// @throws Timeout naming the ranks that did not come; the wait is 120 s, or as long as the timeout
///   that was set
/// @throws PeerFailed if a process that has begun to join is known to have died
/// @throws BackendUnavailable if the backend cannot run here; the message says what is missing
UNISONO_API void initialize(const InitOptions& options = {});

/// Joins the job with a backend: `initialize("gloo")`.
template <class StringLike>
requires std::convertible_to<const StringLike&, std::string_view>
void initialize(const StringLike& backend) {
  InitOptions options;
  options.backend = std::string(std::string_view(backend));
  initialize(options);
}

/// Leaves the job: waits at most 10 s for operations under way, tells the peers, and releases what
/// `initialize` has made.
///
/// A second call does nothing. A library that was not initialised here, as an MPI of the program's
/// own, is left alone.
UNISONO_API void finalize();

/// initialize and finalize as a scope.
///
/// If an exception leaves the scope, the peers get PeerFailed at once instead of waiting for a rank
/// that has given up.
///
/// ```cpp
/// int main() {
///   unisono::Context context;
///   …
/// }
/// ```
class UNISONO_API Context {
 public:
  /// Joins the job that the environment names.
  Context();
  /// Joins the job with these options. Throws what `initialize` throws.
  explicit Context(const InitOptions& options);
  /// Leaves the job.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Returns the last calls of this rank; see unisono::record.
  std::vector<CallRecord> record() const;

 private:
  int exceptions_;
};

/// Tells whether this process, or this thread of run_threads, has joined a job. Never throws.
UNISONO_API bool is_initialized();

/// Returns the rank of this process in the world, from 0 to world_size() - 1.
///
/// The functions from here to `dist_info` speak of the world. In a process that was not launched
/// they say: rank 0 of 1. In one that was launched they throw NotInitialized before `initialize`. An
/// exception is a job that MPI has formed in this process, or that a ContextProbe finds: rank,
/// world_size and dist_info read its numbers, and all other functions join it as `sync` does.
UNISONO_API int rank();

/// Returns the number of processes of the job.
UNISONO_API int world_size();
/// Returns the number of this process among those of its host.
UNISONO_API int local_rank();
/// Returns the number of processes of this host.
UNISONO_API int nproc_per_node();
/// Returns the number of hosts, counted exactly, also if they have different numbers of processes.
UNISONO_API int nnodes();
/// Returns the number of this host, in the order of each host's lowest rank.
UNISONO_API int node_rank();

/// Rank and world size together: `auto [rank, size] = dist_info();`.
struct DistInfo {
  int rank, world_size;
};

/// Returns rank and world size.
UNISONO_API DistInfo dist_info();

/// Returns the name of this host.
UNISONO_API std::string hostname();

/// Returns the device that this process computes on: that of the world's backend, or the cpu.
///
/// With nccl it is "cuda:" and the local rank, or the only device that the process is shown. It is
/// this device, too, if the ranks share one and its memory therefore goes through the host.
UNISONO_API Device device();

/// Returns the backend of the world, "native" for instance; std::nullopt in a process that is
/// alone.
UNISONO_API std::optional<std::string> backend();

/// Returns "serial" in a process that is alone, otherwise the backend with "-dist": "native-dist"
/// (ignite's name for it).
UNISONO_API std::string model_name();

/// Returns the backends that can be used here.
///
/// Before `initialize` the runtime of a device is not started for the answer, so that the process
/// may still fork ranks that use it.
UNISONO_API std::vector<std::string> available_backends();

/// Tells whether a backend can be used here.
UNISONO_API bool is_backend_available(std::string_view name);

/// Tells how to join a job that somebody else has formed in this process, or std::nullopt if there
/// is none.
using ContextProbe = std::function<std::optional<InitOptions>()>;

/// Adds a probe. Probes are asked in the order of registration until one knows a job.
UNISONO_API void register_context_probe(ContextProbe probe);

/// Joins a job that somebody else has formed in this process, if there is one: until `finalize`,
/// or, with `temporary`, until the next call of `sync`. Does nothing if the process has joined a
/// job already.
///
/// POSIX has a function of that name in <unistd.h>: write `unisono::sync()`.
UNISONO_API void sync(bool temporary = false);

/// Says what local_rank() shall be from the next `initialize` on, for a launcher that does not.
/// InvalidArgument if negative.
UNISONO_API void set_local_rank(int index);

/// Writes ten lines about the process and its job, on rank 0, in the words of ignite.
UNISONO_API void show_config(std::ostream& out);

/// Writes them to std::clog.
UNISONO_API void show_config();

/// Returns the launcher that started this process, from its environment. Works before `initialize`.
UNISONO_API Launcher infer_launcher();

/// Returns the number of this process on its host as the launcher says, also before `initialize`.
///
/// ```cpp
/// const int device = launcher_local_rank().value_or(0);   // 0 if no launcher has started it
/// ```
UNISONO_API std::optional<int> launcher_local_rank();

/// Tells whether torchrun has started this process. infer_launcher() says so as well if somebody
/// has set its variables by hand.
UNISONO_API bool is_torchelastic_launched();

}  // namespace unisono
