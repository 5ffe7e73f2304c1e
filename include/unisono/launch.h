#pragma once

#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/export.h"

namespace unisono {

namespace detail {

UNISONO_API void run_threads(int ranks, const std::function<void(int rank)>& body);

/// f(local_rank, args...) if it can be called so, else f(args...).
template <class F, class... Args>
decltype(auto) call_with_rank(F& f, int local_rank, Args&... args) {
  if constexpr (std::is_invocable_v<F&, int, Args&...>) {
    return std::invoke(f, local_rank, args...);
  } else {
    return std::invoke(f, args...);
  }
}

}  // namespace detail

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
