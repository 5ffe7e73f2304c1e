#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "unisono/context.h"
#include "unisono/detail/object_bytes.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono {

/// The processes that spawn starts here, and the job that they are part of.
struct SpawnOptions {
  std::string backend = "auto";
  int nproc_per_node = 1;        ///< processes to start here, and on every other node
  int nnodes = 1;                ///< each of which calls spawn
  int node_rank = 0;             ///< of this one: its processes are ranks node_rank * nproc_per_node and following
  std::string master_addr = {};  ///< of node 0; with several nodes and without init_method. Unset: MASTER_ADDR
  int master_port = 0;           ///< a port there that is free. Unset: MASTER_PORT
  std::string init_method = {};  ///< tcp://host:port or file:///path, instead of both. Unset, one node needs neither, and opens no port
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  ///< of every call
};

namespace detail {

using Bytes = std::vector<std::byte>;

UNISONO_API void run_threads(int ranks, const std::function<void(int rank)>& body);
UNISONO_API std::vector<Bytes> spawn(const SpawnOptions& options, const std::function<Bytes(int local_rank)>& body);
/// What `launch` asks of spawn. InvalidArgument where it makes no sense.
UNISONO_API SpawnOptions spawn_options(int num_machines, int num_gpus_per_machine, int machine_rank, std::string dist_url);
/// Of a world of one, whoever has started this process. InvalidArgument in a process of a larger job.
UNISONO_API InitOptions world_of_one();

/// f(local_rank, args...) if it can be called so, else f(args...).
template <class F, class... Args>
decltype(auto) call_with_rank(F& f, int local_rank, Args&... args) {
  if constexpr (std::is_invocable_v<F&, int, Args&...>) {
    return std::apply(f, std::tuple<int, Args&...>(local_rank, args...));
  } else {
    return std::apply(f, std::tie(args...));
  }
}
template <class F, class... Args>
using rank_result_t = std::decay_t<decltype(call_with_rank(std::declval<F&>(), 0, std::declval<Args&>()...))>;

/// Out of a process go objects only.
template <class R>
constexpr void check_result() {
  static_assert(
      std::is_void_v<R> || object<R>,
      "unisono: the function's result comes back from another process, so it must be an object (numbers, strings, standard containers, types "
      "with UNISONO_FIELDS) or void");
}

}  // namespace detail

/// Runs `f` in processes of its own, forked from this one, each in an initialized context: f(int local_rank, args...) if it can be called so, else
/// f(args...). Returns what those of this node returned, in rank order; returns when all have ended. The arguments are copied by the fork.
///
/// The processes have this one's memory (but for what lies in shared_resource()) and environment (the variables of their rank are the library's
/// affair: getenv does not show them), and end with it. Call it before there are threads, and not within a job: AlreadyInitialized, InvalidArgument.
/// Ranks that work on GPUs need a process that has not called the CUDA runtime; nothing in this library does so before initialize.
/// LaunchFailed if one of them threw, exited by itself or was killed: it names the first cause; the others, whose calls throw PeerFailed, have 15 s
/// before they are ended.
template <class F, class... Args>
auto spawn(const SpawnOptions& options, F&& f, Args&&... args) {
  using Result = detail::rank_result_t<F, Args...>;
  detail::check_result<Result>();
  if constexpr (std::is_void_v<Result>) {
    detail::spawn(options, [&](int local_rank) {
      detail::call_with_rank(f, local_rank, args...);
      return detail::Bytes();
    });
  } else if constexpr (detail::object<Result>) {
    const auto parts = detail::spawn(options, [&](int local_rank) {
      const Result result = detail::call_with_rank(f, local_rank, args...);
      return detail::to_bytes(result);
    });
    std::vector<Result> results;
    results.reserve(parts.size());
    for (const auto& bytes : parts) results.push_back(detail::from_bytes<Result>(bytes));
    return results;
  } else {
    return std::vector<Result>();  // refused above
  }
}

/// Runs `job` on every GPU, or as many processes, of several machines: spawn, with rank machine_rank * num_gpus_per_machine + local rank. dist_url is
/// where they meet, tcp://host:port of machine 0 or file:///path; one machine needs none. A single process is not forked: `job` runs in this one,
/// in a context of its own, and what it throws is thrown.
template <class F, class... Args>
auto launch(F&& job, int num_machines = 1, int num_gpus_per_machine = 1, int machine_rank = 0, std::string dist_url = {}, Args&&... args) {
  using Result = detail::rank_result_t<F, Args...>;
  detail::check_result<Result>();
  const SpawnOptions options = detail::spawn_options(num_machines, num_gpus_per_machine, machine_rank, std::move(dist_url));
  if (options.nnodes > 1 || options.nproc_per_node > 1) return spawn(options, job, args...);
  const Context context(detail::world_of_one());
  if constexpr (std::is_void_v<Result>) {
    detail::call_with_rank(job, 0, args...);
  } else {
    std::vector<Result> results;
    results.push_back(detail::call_with_rank(job, 0, args...));
    return results;
  }
}

/// What a program is to run on. Without a backend: in the world there is. With one: in the job that the launcher (or init_method) names. With
/// nproc_per_node, too: in processes that are spawned.
struct ParallelOptions {
  std::optional<std::string> backend = {};
  std::optional<int> nproc_per_node = {}, nnodes = {}, node_rank = {};
  std::optional<std::string> master_addr = {};
  std::optional<int> master_port = {};
  std::optional<std::string> init_method = {};
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// One spelling for a program that may run alone, under a launcher, or start its processes itself. The context, where it is the object's own, lasts
/// as long as the object; if a function throws in it, the peers get PeerFailed. Rank 0 writes to std::clog what begins and ends.
class UNISONO_API Parallel {
 public:
  /// InvalidArgument for options that contradict each other. Without a backend, NotInitialized in a launched process that has not called initialize.
  explicit Parallel(const ParallelOptions& options = {});
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  /// f(int local_rank, args...) if it can be called so, else f(args...). Returns what every process that was spawned here returned, else what
  /// this one did; or void.
  template <class F, class... Args>
  auto run(F&& f, Args&&... args) {
    using Result = detail::rank_result_t<F, Args...>;
    detail::check_result<Result>();
    const SpawnOptions* const processes = spawns();
    if constexpr (std::is_void_v<Result>) {
      within(typeid(F), [&] {
        if (processes != nullptr) spawn(*processes, f, args...);
        else detail::call_with_rank(f, local_rank(), args...);
      });
    } else {
      std::vector<Result> results;
      within(typeid(F), [&] {
        if (processes != nullptr) results = spawn(*processes, f, args...);
        else results.push_back(detail::call_with_rank(f, local_rank(), args...));
      });
      return results;
    }
  }

 private:
  struct State;
  const SpawnOptions* spawns() const noexcept;
  /// From the line that a run begins to the line that it ends; if an exception leaves it, the peers are told.
  void within(const std::type_info& function, const std::function<void()>& body);

  std::unique_ptr<State> state_;
};

/// Runs `f` once for each of `ranks` ranks that are threads of this process: inside, world() is theirs, and everything works as among processes.
/// For tests. Returns what each rank returned, in rank order. The arguments are shared by the ranks. What a rank throws reaches the others as
/// PeerFailed, and the caller as it was thrown (of several, the one that was no consequence of another).
template <class F, class... Args>
auto run_threads(int ranks, F&& f, Args&&... args) {
  using Result = std::decay_t<decltype(detail::call_with_rank(f, 0, args...))>;
  if constexpr (std::is_void_v<Result>) {
    detail::run_threads(ranks, [&](int rank) { detail::call_with_rank(f, rank, args...); });
  } else {
    std::vector<std::optional<Result>> slots(ranks > 0 ? static_cast<std::size_t>(ranks) : 0);
    detail::run_threads(ranks, [&](int rank) { slots[static_cast<std::size_t>(rank)].emplace(detail::call_with_rank(f, rank, args...)); });
    std::vector<Result> results;
    results.reserve(slots.size());
    for (auto& slot : slots) results.push_back(std::move(*slot));
    return results;
  }
}

}  // namespace unisono
