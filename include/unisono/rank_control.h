#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "unisono/export.h"
#include "unisono/process_group.h"

namespace unisono {

/// True on rank 0 of the group.
inline bool is_main_process(const ProcessGroup& group = current_world()) { return group.rank() == 0; }
/// True on rank 0 of the world.
inline bool is_master_process() { return is_main_process(); }

struct OneRankOnlyOptions {
  Rank rank = 0;
  bool with_barrier = false;               ///< nobody returns before the rank is done, and all learn if it threw
  std::optional<ProcessGroup> group = {};  ///< unset: the world
};

namespace detail {

/// The rank within the group. InvalidArgument where there is none.
UNISONO_API int rank_within(Rank rank, const ProcessGroup& group, std::string_view operation);
/// Every rank calls it, with the error it met, if any. If none met one it returns when all have called. Else whoever has an error throws that, and
/// the others PeerFailed with its rank and text; the group stays usable.
UNISONO_API void agree(const ProcessGroup& group, std::string_view operation, const std::exception_ptr& error);

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

/// A callable that runs `f` on one rank of the group, and returns std::optional of its result: empty on the others (or void, where f returns
/// nothing). InvalidArgument at once where there is no such rank. The world is the one there is when it is called. Without a barrier nothing is
/// communicated, and the ranks need not all call. With one, an exception on the rank is thrown by the others as PeerFailed with its text, and the
/// group stays usable.
template <class F>
auto one_rank_only(F f, const OneRankOnlyOptions& options = {}) {
  return detail::OneRankOnly<F>(std::move(f), options);
}

struct OneRankFirstOptions {
  Rank rank = 0;
  bool local = false;                      ///< `rank` is a local rank: one rank of each host goes first, its last one where it has no such rank
  std::optional<ProcessGroup> group = {};  ///< unset: the world
};

/// A scope that one rank (of each host) passes first: the others wait in the constructor until it has left its own. All ranks of the group make
/// one. If an exception leaves the scope of the first, the others' constructors throw PeerFailed with its rank, and the group stays usable.
class UNISONO_API OneRankFirst {
 public:
  OneRankFirst() : OneRankFirst(OneRankFirstOptions{}) {}
  /// InvalidArgument where there is no such rank.
  explicit OneRankFirst(const OneRankFirstOptions& options);
  /// On the first rank: waits for the others, and throws what goes wrong with that. If an exception leaves the scope it waits for nobody.
  ~OneRankFirst() noexcept(false);
  OneRankFirst(const OneRankFirst&) = delete;
  OneRankFirst& operator=(const OneRankFirst&) = delete;
  /// Whether this rank goes first (on its host).
  bool is_first() const noexcept { return is_first_; }

 private:
  ProcessGroup group_;
  bool is_first_;
  int exceptions_;
};

/// MiB of its GPU's memory that this process has: now, and the most that was seen. One looks when one of these is called and, ten times a second at
/// most, when device memory is communicated. Where the driver does not tell the memory of single processes, as in most containers, it is that of all
/// processes on the GPU. 0 where device() is cpu.
UNISONO_API std::size_t gpu_mem_usage();
UNISONO_API std::size_t gpu_mem_peak();

}  // namespace unisono
