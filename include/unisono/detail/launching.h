#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "unisono/context.h"
#include "unisono/detail/object_bytes.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"

// From the typed functions of spawn and its like to processes that run a body and leave bytes.

namespace unisono {

struct SpawnOptions;
struct LaunchOptions;

namespace detail {

using Bytes = std::vector<std::byte>;

/// Runs the body once for each rank, in threads.
UNISONO_API void run_threads(int ranks, const std::function<void(int rank)>& body);

/// Runs the body in forked processes and returns the bytes of each.
UNISONO_API std::vector<Bytes> spawn(const SpawnOptions& options, const std::function<Bytes(int local_rank)>& body);

/// Processes that run the body beside this one. The destructor waits for them.
class UNISONO_API Processes {
 public:
  /// Starts them, as `spawn` does. The body is not called any more when this returns, but in them.
  Processes(const SpawnOptions& options, const std::function<Bytes(int local_rank)>& body);
  ~Processes();
  Processes(Processes&&) noexcept;
  Processes& operator=(Processes&&) = delete;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  /// Waits for the end of all, and returns the bytes of each. Once.
  std::vector<Bytes> join();
  /// Waits no longer than this, and tells whether all have ended.
  bool wait_for(std::chrono::milliseconds time);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the options of `launch` as those of `spawn`. InvalidArgument if they make no sense.
UNISONO_API SpawnOptions spawn_options(const LaunchOptions& options);

/// Returns the options of a world of one for `launch`, whoever has started this process.
UNISONO_API InitOptions world_of_one(const LaunchOptions& options);

/// Calls f(args...).
template <class F, class... Args>
decltype(auto) call_without_rank(F& f, Args&... args) {
  static_assert(std::is_invocable_v<F&, Args&...>,
                "unisono: launch calls the job with its arguments alone, which stand after the options: launch(job, {.num_gpus_per_machine = 2}, "
                "epochs); this job takes others; local_rank() is a function");
  return std::apply(f, std::tie(args...));
}

/// Calls f(local_rank, args...) or f(args...), whichever is possible.
template <class F, class... Args>
decltype(auto) call_with_rank(F& f, int local_rank, Args&... args) {
  static_assert(!std::is_invocable_v<F&, int, Args&...> || !std::is_invocable_v<F&, Args&...>,
                "unisono: this function can be called with the local rank before its arguments and without it; give a lambda that says which: "
                "[](int local_rank, int epochs) { train(epochs); }");
  static_assert(std::is_invocable_v<F&, int, Args&...> || std::is_invocable_v<F&, Args&...>,
                "unisono: this function can be called neither with the local rank before its arguments nor without it: the arguments that are given "
                "after it are of other types, or of another number");
  if constexpr (std::is_invocable_v<F&, int, Args&...>) {
    return std::apply(f, std::tuple<int, Args&...>(local_rank, args...));
  } else {
    return std::apply(f, std::tie(args...));
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

/// The function of a rank, and the facts by which a process that runs the program again knows it: a
/// type, and for a plain function, whose type others have, too, its address.
struct RankBody {
  std::function<Bytes(int local_rank)> call;
  const std::type_info* type = nullptr;
  void (*function)() = nullptr;
  Bytes operator()(int local_rank) const { return call(local_rank); }
};

/// Returns the body of `call`, which calls f.
template <class F, class Call>
std::function<Bytes(int local_rank)> body_of_call(F& f, const Call& call) {
  using Result = std::decay_t<decltype(call(0))>;
  check_result<Result>();
  RankBody body;
  body.call = [call](int local_rank) {
    if constexpr (object<Result>) {
      const Result result = call(local_rank);
      return to_bytes(result);
    } else {
      call(local_rank);
      return Bytes();
    }
  };
  body.type = &typeid(Call);
  if constexpr (std::is_function_v<std::remove_pointer_t<F>>) body.function = reinterpret_cast<void (*)()>(static_cast<std::decay_t<F>>(f));
  return body;
}

/// Returns the function that calls f in a process, and returns its result as bytes. It refers to
/// the arguments.
template <class F, class... Args>
auto body_of(F& f, Args&... args) {
  return body_of_call(f, [&f, &args...](int local_rank) -> decltype(auto) { return call_with_rank(f, local_rank, args...); });
}

/// Returns the same for a job of `launch`, which does not take the local rank.
template <class F, class... Args>
auto body_of_job(F& f, Args&... args) {
  return body_of_call(f, [&f, &args...](int) -> decltype(auto) { return call_without_rank(f, args...); });
}

/// Returns the results of processes, of which these are the bytes.
template <class R>
std::vector<R> results_of(const std::vector<Bytes>& parts) {
  std::vector<R> results;
  results.reserve(parts.size());
  if constexpr (object<R>) {
    for (const Bytes& bytes : parts) results.push_back(from_bytes<R>(bytes));
  }
  return results;
}

}  // namespace detail

}  // namespace unisono
