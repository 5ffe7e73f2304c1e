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

/// The processes that `spawn` starts here, and the job that they are part of.
struct SpawnOptions {
  /// The backend, as in InitOptions.
  std::string backend = "auto";
  /// The number of processes to start here, and on every other node.
  int nproc_per_node = 1;
  /// The number of nodes, each of which calls `spawn`.
  int nnodes = 1;
  /// The number of this node, whose processes are the ranks from node_rank * nproc_per_node on.
  int node_rank = 0;
  /// An address of node 0, for several nodes without init_method; MASTER_ADDR unless it is set.
  std::string master_addr = {};
  /// A port that is free there; MASTER_PORT unless it is set.
  int master_port = 0;
  /// "tcp://host:port" or "file:///path", in place of both. A single node needs neither, and opens
  /// no port.
  std::string init_method = {};
  /// The deadline of every call.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

namespace detail {

using Bytes = std::vector<std::byte>;

/// Runs the body once for each rank, in threads.
UNISONO_API void run_threads(int ranks, const std::function<void(int rank)>& body);

/// Runs the body in forked processes and returns the bytes of each.
UNISONO_API std::vector<Bytes> spawn(const SpawnOptions& options, const std::function<Bytes(int local_rank)>& body);

/// Returns the arguments of `launch` as options. InvalidArgument if they make no sense.
UNISONO_API SpawnOptions spawn_options(int num_machines, int num_gpus_per_machine, int machine_rank, std::string dist_url);

/// Returns the options of a world of one, whoever has started this process. InvalidArgument in a
/// process of a larger job.
UNISONO_API InitOptions world_of_one();

/// Calls f(args...).
template <class F, class... Args>
decltype(auto) call_without_rank(F& f, Args&... args) {
  return std::apply(f, std::tie(args...));
}

/// Calls f(local_rank, args...) or f(args...), whichever is possible.
template <class F, class... Args>
decltype(auto) call_with_rank(F& f, int local_rank, Args&... args) {
  static_assert(!std::is_invocable_v<F&, int, Args&...> || !std::is_invocable_v<F&, Args&...>,
                "unisono: this function can be called with the local rank before its arguments and without it; give a lambda that says which: "
                "[](int local_rank, int epochs) { train(epochs); }");
  if constexpr (std::is_invocable_v<F&, int, Args&...>) {
    return std::apply(f, std::tuple<int, Args&...>(local_rank, args...));
  } else {
    return call_without_rank(f, args...);
  }
}

/// The type that such a call returns.
template <class F, class... Args>
using rank_result_t = std::decay_t<decltype(call_with_rank(std::declval<F&>(), 0, std::declval<Args&>()...))>;

/// Fails to compile for results that cannot leave a process, which only objects can.
template <class R>
constexpr void check_result() {
  static_assert(
      std::is_void_v<R> || object<R>,
      "unisono: the function's result comes back from another process, so it must be an object (numbers, strings, standard containers, types "
      "with UNISONO_FIELDS) or void");
}

}  // namespace detail

/// Runs `f` in processes that are forked from this one, each in an initialised context, and waits
/// until all have ended. Returns the results of this node's processes in rank order, if `f` returns
/// an object.
///
/// `f` is called as f(int local_rank, args...) or as f(args...), whichever compiles; a function that
/// can be called in both ways is refused. It is any callable, with everything that it has captured: the fork copies it, and nothing is pickled.
///
/// ```cpp
/// const std::vector<int> sums = spawn({.nproc_per_node = 4}, [] { return all_reduce(rank()); });
/// ```
///
/// The processes have this one's memory, except for shared_resource(), and its environment. They
/// end with it. Call `spawn` before there are threads. Ranks that use GPUs need a process that has
/// not called the CUDA runtime, as nothing in this library does before `initialize`.
///
/// @throws AlreadyInitialized, InvalidArgument within a job
/// @throws LaunchFailed if a process threw, exited by itself or was killed; it names the first
///   cause. The others, whose calls throw PeerFailed, have 15 s before they are ended
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

/// Runs `job` in num_gpus_per_machine processes on each of several machines, as virtex's function
/// of that name; no GPU is needed. It is called as job(args...), without the local rank, which
/// local_rank() returns.
///
/// Every machine calls it. Ranks are machine_rank * num_gpus_per_machine + local rank. They meet at
/// `dist_url`: tcp://host:port of machine 0, or file:///path; one machine needs none. A single
/// process is not forked: `job` runs in this one, in a context of its own, and its exceptions are
/// thrown as they are. Otherwise it behaves like `spawn`.
template <class F, class... Args>
auto launch(F&& job, int num_machines = 1, int num_gpus_per_machine = 1, int machine_rank = 0, std::string dist_url = {}, Args&&... args) {
  using Result = std::decay_t<decltype(detail::call_without_rank(job, args...))>;
  detail::check_result<Result>();
  const SpawnOptions options = detail::spawn_options(num_machines, num_gpus_per_machine, machine_rank, std::move(dist_url));
  if (options.nnodes > 1 || options.nproc_per_node > 1) return spawn(options, [&] { return detail::call_without_rank(job, args...); });
  const Context context(detail::world_of_one());
  if constexpr (std::is_void_v<Result>) {
    detail::call_without_rank(job, args...);
  } else {
    std::vector<Result> results;
    results.push_back(detail::call_without_rank(job, args...));
    return results;
  }
}

/// The place where a program is to run.
///
/// - Without a backend: in the world that there is.
/// - With a backend: in the job that the launcher, or init_method, names.
/// - With nproc_per_node as well: in processes that are spawned.
struct ParallelOptions {
  std::optional<std::string> backend = {};
  std::optional<int> nproc_per_node = {}, nnodes = {}, node_rank = {};
  std::optional<std::string> master_addr = {};
  std::optional<int> master_port = {};
  std::optional<std::string> init_method = {};
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// A single spelling for a program that may run alone, run under a launcher, or start its processes
/// itself (ignite's Parallel).
///
/// A context that the object has made lasts as long as the object. If a function throws in it, the
/// peers get PeerFailed. Rank 0 writes to std::clog what begins and ends.
///
/// ```cpp
/// Parallel parallel({.backend = "native", .nproc_per_node = 4});
/// parallel.run(train, config);
/// ```
class UNISONO_API Parallel {
 public:
  /// Joins the job, if the options say so.
  ///
  /// @throws InvalidArgument for options that contradict each other
  /// @throws NotInitialized without a backend, in a launched process that has not called
  ///   `initialize`
  explicit Parallel(const ParallelOptions& options = {});
  /// Leaves the job, if the constructor has joined it.
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  /// Calls f(int local_rank, args...) or f(args...), whichever compiles; a function that can be
  /// called in both ways is refused. Returns the results of
  /// all processes that were spawned here, else the result of this one, in a vector; or nothing.
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
  /// Writes the lines around a run. If an exception leaves it, the peers are told.
  void within(const std::type_info& function, const std::function<void()>& body);

  std::unique_ptr<State> state_;
};

/// Runs `f` once for each of `ranks` ranks that are threads of this process, for tests. Returns
/// their results in rank order. `f` is called as by `spawn`.
///
/// Inside, world() is theirs, and everything works as among processes; the arguments are shared. An
/// exception of a rank reaches the others as PeerFailed and the caller as it was thrown; among
/// several, the one that was no consequence of another.
///
/// ```cpp
/// run_threads(4, [] { EXPECT_EQ(all_reduce(rank()), 6); });
/// ```
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
