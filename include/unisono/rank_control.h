#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <optional>
#include <source_location>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "unisono/export.h"
#include "unisono/process_group.h"

namespace unisono {

/// Tells whether this process is rank 0 of the group.
inline bool is_main_process(const ProcessGroup& group = current_world()) { return group.rank() == 0; }

/// Tells whether this process is rank 0 of the world.
inline bool is_master_process() { return is_main_process(); }

/// The options of one_rank_only.
struct OneRankOnlyOptions {
  /// The rank that runs the function.
  Rank rank = 0;
  /// Whether nobody returns before that rank is done. All ranks then learn if it threw.
  bool with_barrier = false;
  /// The group that the rank belongs to; the world unless it is set.
  std::optional<ProcessGroup> group = {};
};

namespace detail {

/// Returns the rank within the group. InvalidArgument if there is none.
UNISONO_API int rank_within(Rank rank, const ProcessGroup& group, std::string_view operation);

/// Collective: each rank brings the error that it has met, if any.
///
/// If no rank has met one, it returns once all have called. Otherwise the ranks with an error throw
/// their own, and the others PeerFailed with the rank and the text of one of them; the group stays
/// usable.
UNISONO_API void agree(const ProcessGroup& group, std::string_view operation, const std::exception_ptr& error,
                       const std::source_location& where = {});

/// The callable that one_rank_only returns.
template <class F>
class OneRankOnly {
 public:
  OneRankOnly(F f, const OneRankOnlyOptions& options) : f_(std::move(f)), options_(options) {
    static_cast<void>(rank_within(options_.rank, group(), "one_rank_only"));
  }

  template <class... Args>
  requires std::invocable<F&, Args...>
  auto operator()(Args&&... args) {
    using Result = std::decay_t<std::invoke_result_t<F&, Args...>>;
    if constexpr (std::is_void_v<Result>) {
      attend([&] { std::apply(f_, std::forward_as_tuple(std::forward<Args>(args)...)); });
    } else {
      std::optional<Result> result;
      attend([&] { result.emplace(std::apply(f_, std::forward_as_tuple(std::forward<Args>(args)...))); });
      return result;
    }
  }

 private:
  /// Runs the function on the chosen rank, and waits for the others if that was asked for.
  template <class Run>
  void attend(Run&& run) {
    const ProcessGroup ranks = group();
    const bool is_chosen = ranks.rank() == rank_within(options_.rank, ranks, "one_rank_only");
    if (!options_.with_barrier) {
      if (is_chosen) run();
      return;
    }
    std::exception_ptr error;
    try {
      if (is_chosen) run();
    } catch (...) {
      error = std::current_exception();
    }
    agree(ranks, "one_rank_only", error);
  }
  ProcessGroup group() const { return options_.group ? *options_.group : current_world(); }

  F f_;
  OneRankOnlyOptions options_;
};

}  // namespace detail

/// Returns a callable that runs `f` on a single rank. It returns std::optional of the result, empty
/// on the other ranks; or nothing, if `f` returns nothing.
///
/// Without a barrier nothing is communicated, and the ranks need not all call. With one all ranks
/// call, and an exception on the chosen rank is thrown by the others as PeerFailed with its text;
/// the group stays usable.
///
/// ```cpp
/// auto save = one_rank_only(write_checkpoint, {.with_barrier = true});
/// save(model);
/// ```
///
/// The world is the one at the time of the call of the callable.
///
/// @throws InvalidArgument at once, if there is no such rank
template <class F>
auto one_rank_only(F f, const OneRankOnlyOptions& options = {}) {
  return detail::OneRankOnly<F>(std::move(f), options);
}

/// The options of OneRankFirst.
struct OneRankFirstOptions {
  /// The rank that goes first.
  Rank rank = 0;
  /// Whether `rank` is a local rank, so that a rank of each host goes first. A host without that
  /// local rank lets its last one go.
  bool local = false;
  /// The group whose ranks make the object; the world unless it is set.
  std::optional<ProcessGroup> group = {};
  /// The place of the call, which a function that calls on behalf of another passes on.
  std::source_location where = {};
};

/// A scope that a single rank, or one of each host, passes first. The others wait in the
/// constructor until it has left its scope.
///
/// All ranks of the group make such an object. If an exception leaves the scope of the first, the
/// constructors of the others throw PeerFailed with its rank, and the group stays usable.
///
/// ```cpp
/// {
///   const OneRankFirst first({.local = true});
///   load(download_once());                           // the others of the host find the file
/// }
/// ```
class UNISONO_API OneRankFirst {
 public:
  /// Lets rank 0 of the world go first.
  OneRankFirst() : OneRankFirst(OneRankFirstOptions{}) {}
  /// Waits until the first rank has left its scope. InvalidArgument if there is no such rank.
  explicit OneRankFirst(const OneRankFirstOptions& options);
  /// On the first rank: waits for the others, and throws what goes wrong with that. If an exception
  /// leaves the scope it does not wait.
  ~OneRankFirst() noexcept(false);
  OneRankFirst(const OneRankFirst&) = delete;
  OneRankFirst& operator=(const OneRankFirst&) = delete;
  /// Tells whether this rank goes first.
  bool is_first() const noexcept { return is_first_; }

 private:
  ProcessGroup group_;
  std::source_location where_;
  bool is_first_;
  int exceptions_;
};

/// Returns the MiB of its GPU's memory that this process has now; 0 if device() is the cpu.
///
/// If the driver does not tell single processes apart, as in most containers, the number is that of
/// all processes on the GPU.
UNISONO_API std::size_t gpu_mem_usage();

/// Returns the largest number that was seen. The library looks when gpu_mem_usage or gpu_mem_peak
/// is called and, at most ten times a second, when device memory is communicated.
UNISONO_API std::size_t gpu_mem_peak();

}  // namespace unisono
