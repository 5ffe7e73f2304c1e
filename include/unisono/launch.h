#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "unisono/context.h"
#include "unisono/detail/launching.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono {

/// The way in which `spawn` makes processes.
enum class StartMethod {
  /// A process has this one's memory, and everything that the function has captured. This process
  /// may have neither threads that hold locks nor a CUDA runtime that it has called.
  fork,
  /// A process runs the program again, from its beginning and with the same arguments. When it comes to
  /// the same call it runs the function, and ends. Threads and the CUDA runtime of this process do not
  /// matter.
  ///
  /// The program repeats everything before the call in each process, whose environment variables are
  /// those of a launched rank. The call is the first of the program that starts processes: a later one
  /// would need the results of the earlier one, and is InvalidArgument.
  exec,
};

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
  /// The way in which the processes are made.
  StartMethod start_method = StartMethod::fork;
};

/// The processes that `launch` starts on this machine, and the job that they are part of.
struct LaunchOptions {
  /// The number of machines, each of which calls `launch`.
  int num_machines = 1;
  /// The number of processes on each machine; no GPU is needed.
  int num_gpus_per_machine = 1;
  /// The number of this machine.
  int machine_rank = 0;
  /// The place where they meet: tcp://host:port of machine 0, or file:///path; one machine needs
  /// none.
  std::string dist_url = {};
  /// The backend, as in InitOptions.
  std::string backend = "auto";
  /// The deadline of every call.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// The way in which several processes are made.
  StartMethod start_method = StartMethod::fork;
};

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
/// end with it. Call `spawn` before there are threads, or with StartMethod::exec. Ranks that use
/// GPUs need that, too, or a process that has not called the CUDA runtime, as nothing in this
/// library does before `initialize`.
///
/// @throws AlreadyInitialized, InvalidArgument within a job
/// @throws LaunchFailed if a process threw, exited by itself or was killed; it names the first
///   cause. The others, whose calls throw PeerFailed, have 15 s before they are ended
template <class F, class... Args>
auto spawn(const SpawnOptions& options, F&& f, Args&&... args) {
  using Result = detail::rank_result_t<F, Args...>;
  const auto parts = detail::spawn(options, detail::body_of(f, args...));
  if constexpr (!std::is_void_v<Result>) return detail::results_of<Result>(parts);
}

/// Processes that spawn_async has started. The destructor waits until they have ended.
template <class R>
class [[nodiscard]] Spawned {
 public:
  /// Takes the processes; spawn_async calls it.
  explicit Spawned(detail::Processes processes) : processes_(std::move(processes)) {}
  /// Waits until all have ended, and returns or throws what `spawn` does. InvalidArgument if it has
  /// been called before.
  auto join() {
    const auto parts = processes_.join();
    if constexpr (!std::is_void_v<R>) return detail::results_of<R>(parts);
  }
  /// Waits no longer than this, and tells whether all have ended.
  bool wait_for(std::chrono::milliseconds time) { return processes_.wait_for(time); }

 private:
  detail::Processes processes_;
};

/// Starts the processes of `spawn`, and returns when they have begun; this process goes on beside
/// them. It has a thread more then, which watches them.
///
/// ```cpp
/// auto ranks = spawn_async({.nproc_per_node = 4}, train, config);
/// draw(progress);
/// const std::vector<double> losses = ranks.join();
/// ```
template <class F, class... Args>
auto spawn_async(const SpawnOptions& options, F&& f, Args&&... args) {
  return Spawned<detail::rank_result_t<F, Args...>>(detail::Processes(options, detail::body_of(f, args...)));
}

/// Runs `job` in num_gpus_per_machine processes on each of several machines, as virtex's function
/// of that name; no GPU is needed. It is called as job(args...), without the local rank, which
/// local_rank() returns.
///
/// Every machine calls it. Ranks are machine_rank * num_gpus_per_machine + local rank. A single
/// process is not started: `job` runs in this one, in a context of its own, and its exceptions are
/// thrown as they are. Otherwise it behaves like `spawn`.
///
/// ```cpp
/// launch(train, {.num_gpus_per_machine = 2}, config, 10);     // train(config, 10) in two processes
/// ```
template <class F, class... Args>
auto launch(F&& job, const LaunchOptions& options = {}, Args&&... args) {
  using Result = std::decay_t<decltype(detail::call_without_rank(job, args...))>;
  detail::check_result<Result>();
  const SpawnOptions processes = detail::spawn_options(options);
  if (processes.nnodes > 1 || processes.nproc_per_node > 1) {
    const auto parts = detail::spawn(processes, detail::body_of_job(job, args...));
    if constexpr (std::is_void_v<Result>) return;
    else return detail::results_of<Result>(parts);
  }
  const Context context(detail::world_of_one(options));
  if constexpr (std::is_void_v<Result>) {
    detail::call_without_rank(job, args...);
  } else {
    std::vector<Result> results;
    results.push_back(detail::call_without_rank(job, args...));
    return results;
  }
}

/// Runs `job` in the same way, with the options in virtex's order.
template <class F, std::convertible_to<int> N, class... Args>
auto launch(F&& job, N num_machines, int num_gpus_per_machine = 1, int machine_rank = 0, const std::string& dist_url = {}, Args&&... args) {
  return launch(
      std::forward<F>(job),
      LaunchOptions{.num_machines = num_machines, .num_gpus_per_machine = num_gpus_per_machine, .machine_rank = machine_rank, .dist_url = dist_url},
      std::forward<Args>(args)...);
}

/// The place where a program runs.
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
  /// The way in which the processes are made; StartMethod::fork unless it is set.
  std::optional<StartMethod> start_method = {};
  /// Whether `run` waits for the processes; true unless it is set.
  std::optional<bool> join = {};
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
  /// called in both ways is refused. Returns a vector: the results of all processes that were spawned
  /// here, or otherwise the result of this one; or nothing.
  ///
  /// With `join = false` it returns when the processes have begun, and the vector is empty;
  /// spawn_async keeps results.
  template <class F, class... Args>
  auto run(F&& f, Args&&... args) {
    using Result = detail::rank_result_t<F, Args...>;
    detail::check_result<Result>();
    std::vector<detail::Bytes> parts;
    const auto spawns = [&] { return start(detail::body_of(f, args...), parts); };
    if constexpr (std::is_void_v<Result>) {
      within(typeid(F), [&] {
        if (!spawns()) detail::call_with_rank(f, local_rank(), args...);
      });
    } else {
      std::vector<Result> results;
      within(typeid(F), [&] {
        if (spawns()) results = detail::results_of<Result>(parts);
        else results.push_back(detail::call_with_rank(f, local_rank(), args...));
      });
      return results;
    }
  }

  /// Waits for the processes that `run` has started with `join = false`, and throws LaunchFailed if
  /// they have failed. The destructor waits, too, and logs a failure.
  void join();

 private:
  struct State;
  /// Runs the body in processes, if the arguments ask for any. Returns whether there are; `parts` has
  /// their results if they have ended.
  bool start(const std::function<detail::Bytes(int local_rank)>& body, std::vector<detail::Bytes>& parts);
  /// Writes the lines around a run. If an exception leaves it, the peers are told.
  void within(const std::type_info& function, const std::function<void()>& body);

  std::unique_ptr<State> state_;
};

/// Runs `f` once for each of `ranks` ranks that are threads of this process, for tests. Returns
/// their results in rank order. `f` is called as by `spawn`.
///
/// Inside, world() is theirs, and everything works as among processes; the arguments are shared. An
/// exception of a rank reaches the others as PeerFailed and the caller as it was thrown; among several,
/// the one that was not a consequence of another.
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
