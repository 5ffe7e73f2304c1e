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
#include "unisono/tensor.h"

namespace unisono {

class Store;

/// How a process joins its job. What is not given here comes from the environment of the launcher; both saying different things is InvalidArgument.
struct InitOptions {
  std::string backend = "auto";        ///< auto serial native tcp gloo mpi nccl, or "cpu:native,cuda:nccl", or a registered one; any case
  std::string init_method = "env://";  ///< env://  tcp://host:port (of rank 0, or multicast)  file:///path
  std::optional<int> rank = {}, world_size = {}, local_rank = {};
  std::string group_name = {};  ///< lets several jobs share one file or multicast address
  std::chrono::milliseconds timeout =
      std::chrono::minutes(30);       ///< of every call, unless it says otherwise; UNISONO_TIMEOUT (seconds) replaces this default
  std::shared_ptr<Store> store = {};  ///< instead of init_method
};

/// Where the processes of a job meet by a scheme of one's own, and which of them this one is.
struct Rendezvous {
  std::shared_ptr<Store> store;
  int rank = 0, world_size = 1;
};
/// Is given what initialize was, with all that stands behind the scheme; may wait, and throw.
using RendezvousHandler = std::function<Rendezvous(const InitOptions& options)>;
/// From now on initialize({.init_method = "SCHEME://…"}) asks this handler. InvalidArgument for what is no scheme, and for one that has a handler.
UNISONO_API void register_rendezvous_handler(std::string_view scheme, RendezvousHandler handler);

/// Joins the job; blocks until all of its processes have. Nothing remains of a call that fails. AlreadyInitialized if called twice; Timeout names
/// the ranks that did not come.
UNISONO_API void initialize(const InitOptions& options = {});
/// initialize({.backend = backend})
template <class StringLike>
requires std::convertible_to<const StringLike&, std::string_view>
void initialize(const StringLike& backend) {
  InitOptions options;
  options.backend = std::string(std::string_view(backend));
  initialize(options);
}
/// Waits, at most 10 s, for what is under way, says goodbye and leaves. Idempotent; never destroys what it did not create.
UNISONO_API void finalize();

/// initialize and finalize as a scope. If an exception leaves the scope, the peers get PeerFailed instead of a goodbye.
class UNISONO_API Context {
 public:
  Context();
  explicit Context(const InitOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  int exceptions_;
};

UNISONO_API bool is_initialized();

// These speak of the world. Before initialize, a job that somebody else has formed in this process (MPI, or what a probe below finds) is found: rank,
// world_size and dist_info look at it, and the other functions and every collective join it as sync does. Without one, a process that was not
// launched is rank 0 of 1, and in one that was launched they throw NotInitialized.
UNISONO_API int rank();
UNISONO_API int world_size();
UNISONO_API int local_rank();      ///< among the processes of this host
UNISONO_API int nproc_per_node();  ///< processes on this host
UNISONO_API int nnodes();          ///< hosts, exactly, also where they have different numbers of processes
UNISONO_API int node_rank();       ///< of this host, in the order of each host's lowest rank

struct DistInfo {
  int rank, world_size;
};
UNISONO_API DistInfo dist_info();

UNISONO_API std::string hostname();
/// The device this process computes on: the one that the world's backend works on (nccl: "cuda:" and the number of this process on its host, or of
/// the only one that it is shown), else cpu.
UNISONO_API Device device();
/// Of the world: "native", …; nullopt when not distributed.
UNISONO_API std::optional<std::string> backend();
/// "serial" when not distributed, else the backend's with "-dist": "native-dist".
UNISONO_API std::string model_name();
/// The backends that can be used here. Before initialize nothing starts the runtime of a device for it, so that the process may still spawn ranks
/// that use one.
UNISONO_API std::vector<std::string> available_backends();
UNISONO_API bool is_backend_available(std::string_view name);

/// Says how to join a context that somebody else made in this process (a plug-in asks whether MPI runs already, say); nullopt where there is none.
using ContextProbe = std::function<std::optional<InitOptions>()>;
UNISONO_API void register_context_probe(ContextProbe probe);

/// Looks for a context that somebody else made, by the probes above, and joins it: until finalize,
/// or (`temporary`) until the next call of sync. Does nothing where unisono is initialized already, and where
/// there is none.
UNISONO_API void sync(bool temporary = false);
/// For a context whose launcher says nothing of local ranks: what local_rank() shall be, from the next initialize on. InvalidArgument if negative.
UNISONO_API void set_local_rank(int index);
/// Ten lines about the process and its job, on rank 0, in the words of ignite.
UNISONO_API void show_config(std::ostream& out);
/// The same to std::clog.
UNISONO_API void show_config();

/// Who started this process, from its environment.
UNISONO_API Launcher infer_launcher();
/// The place of this process on its host, as its launcher says, also before initialize: `.value_or(0)` where nobody has to have launched it.
UNISONO_API std::optional<int> launcher_local_rank();
/// Whether torchrun has started this process; infer_launcher() says so as well where somebody has set its variables by hand.
UNISONO_API bool is_torchelastic_launched();

}  // namespace unisono
