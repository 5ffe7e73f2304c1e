#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "unisono/detail/data_movement_refusals.h"
#include "unisono/detail/request.h"
#include "unisono/detail/standard.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Collectives that move elements between ranks and combine none: broadcast, all_gather, gather,
// scatter and all_to_all.
//
// Every rank of the group calls the function with the same operation, dtype, length and root.
// collectives.h states the rules that all collectives share. A *block* is the part of a long buffer
// that belongs to one rank; the blocks of all ranks lie one behind the other in group order and
// have the same length. collectives_v.h has blocks of different lengths, collectives_lists.h has
// one buffer for each rank in place of one long buffer.

namespace unisono {

/// Replaces `x` on every rank by the `x` of rank `src`.
///
/// All ranks know the length and dtype in advance; a receiver that does not uses broadcast_object
/// or broadcast_any.
///
/// @param src the rank within the group whose elements count; GlobalRank{r} names a rank of the
///   world
template <Buffer B>
void broadcast(B&& x, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::in_place(Operation::broadcast, x), src), group, options);
}

/// Starts `broadcast(x, src)` and returns at once. `x` belongs to the library until the Work is
/// done.
template <Buffer B>
[[nodiscard]] Work broadcast_async(B&& x, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::in_place(Operation::broadcast, x), src), group, options);
}

/// Collects the blocks of all ranks on every rank: block r of `out` becomes the `in` of rank r.
///
/// `out` has group.size() times the length of `in`. `in` may be this rank's own block of `out`; it
/// must not overlap `out` in any other way.
///
/// ```cpp
/// std::vector<float> mine(n), all(world_size() * n);
/// all_gather(mine, all);                             // all[r * n + i] = mine[i] of rank r
/// ```
template <InBuffer In, Buffer B>
void all_gather(const In& in, B&& out, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::out_of_place(Operation::all_gather, in, out), group, options);
}

/// Starts `all_gather(in, out)` and returns at once. Both buffers belong to the library until the
/// Work is done.
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_gather_async(const In& in, B&& out, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::out_of_place(Operation::all_gather, in, out), group, options);
}

/// Collects the blocks of all ranks on rank `dst`: block r of its `out` becomes the `in` of rank r.
///
/// On rank `dst`, `out` has group.size() times the length of `in`, and `in` may be its own block of
/// `out`. On every other rank `out` is ignored and may be empty.
template <InBuffer In, Buffer B>
void gather(const In& in, B&& out, Rank dst = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::out_of_place(Operation::gather, in, out), dst), group, options);
}

/// Starts `gather(in, out, dst)` and returns at once. Both buffers belong to the library until the
/// Work is done.
template <InBuffer In, Buffer B>
[[nodiscard]] Work gather_async(const In& in, B&& out, Rank dst = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::out_of_place(Operation::gather, in, out), dst), group, options);
}

/// Shares out the blocks of rank `src`: `out` of rank r becomes block r of that rank's `in`.
///
/// On rank `src`, `in` has group.size() times the length of `out`, and `out` may be its own block
/// of `in`. On every other rank `in` is ignored and may be empty.
template <InBuffer In, Buffer B>
void scatter(const In& in, B&& out, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::out_of_place(Operation::scatter, in, out), src), group, options);
}

/// Starts `scatter(in, out, src)` and returns at once. Both buffers belong to the library until the
/// Work is done.
template <InBuffer In, Buffer B>
[[nodiscard]] Work scatter_async(const In& in, B&& out, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::out_of_place(Operation::scatter, in, out), src), group, options);
}

/// Exchanges a block between every pair of ranks: block r of `out` becomes block rank() of the `in`
/// of rank r.
///
/// Both buffers have the same length, a multiple of group.size(). They must not overlap in a group
/// of several ranks; MPI_IN_PLACE has no counterpart here.
///
/// ```cpp
/// std::vector<int> to_each(world_size()), from_each(world_size());
/// all_to_all(to_each, from_each);                    // from_each[r] = to_each[rank()] of rank r
/// ```
template <InBuffer In, Buffer B>
void all_to_all(const In& in, B&& out, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::out_of_place(Operation::all_to_all, in, out), group, options);
}

/// Starts `all_to_all(in, out)` and returns at once. Both buffers belong to the library until the
/// Work is done.
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_to_all_async(const In& in, B&& out, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::out_of_place(Operation::all_to_all, in, out), group, options);
}

// Values. The forms below take one element and return the result. A rank that gives a value and a
// rank that gives a buffer of one element match.

/// Returns the value of rank `src` on every rank, with its exact type and bits. The other ranks'
/// values are ignored.
template <Element T>
[[nodiscard]] T broadcast(T x, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run(detail::rooted({Operation::broadcast, view, view}, src), group, options);
  return x;
}

/// Returns the values of all ranks, on every rank; element r comes from rank r.
template <Element T>
[[nodiscard]] std::vector<T> all_gather(T x, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::Values<T> all(static_cast<std::size_t>(group.size()));
  detail::run({Operation::all_gather, detail::view_of_value(x), all.view()}, group, options);
  return all.take();
}

/// Returns the values of all ranks on rank `dst`, element r from rank r, and std::nullopt on every
/// other rank.
template <Element T>
[[nodiscard]] std::optional<std::vector<T>> gather(T x, Rank dst = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::Values<T> all(static_cast<std::size_t>(group.size()));
  detail::run(detail::rooted({Operation::gather, detail::view_of_value(x), all.view()}, dst), group, options);
  if (detail::rank_is(dst, group)) return all.take();
  return std::nullopt;
}

}  // namespace unisono
