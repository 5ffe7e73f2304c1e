#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <string_view>
#include <type_traits>
#include <vector>

#include "unisono/counts.h"
#include "unisono/detail/growable.h"
#include "unisono/detail/refusals.h"
#include "unisono/detail/request.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Collectives on blocks of different length, one for each rank. A Counts says in elements how long they are; they lie one behind the other in group
// order. Where counts are the same on every rank they are compared; those of all_to_all_v must fit together: what one sends, the other expects.
// Else all ranks throw Mismatch, and nothing is moved. InvalidArgument where a buffer is not as long as the counts say.

namespace unisono {

namespace detail {

inline Request labelled(Request request, std::string_view label) {
  request.label = label;
  return request;
}
inline Request counted(Request request, const Counts& counts) {
  request.counts = counts;
  return request;
}

/// What each rank gives: the length of its input, or of all_to_all_v what it sends to this one. Throws Mismatch on all ranks where they are not of
/// one dtype. The time that this takes is gone from `options` afterwards.
UNISONO_API Counts exchange_counts(const Request& request, const ProcessGroup& group, CallOptions& options);
/// Tells the group that this rank cannot go on, after the others have seen that it has begun.
UNISONO_API void abandon(const ProcessGroup& group, const std::exception_ptr& reason);
template <class V>
void resize_together(V& out, std::size_t n, const ProcessGroup& group) {
  try {
    out.resize(n);
  } catch (...) {
    abandon(group, std::current_exception());
    throw;
  }
}
/// Throws InvalidArgument for what is wrong by itself with a call whose output is still to be sized, before it sends anything.
UNISONO_API void check_exchanging(const Request& request, const ProcessGroup& group, const CallOptions& options);

inline std::vector<std::size_t> as_vector(const Counts& counts) { return {counts.begin(), counts.end()}; }

/// A group, but nothing that would first have to become one: braces are counts.
template <class G>
concept Group = std::same_as<G, ProcessGroup>;
template <class R>
concept RankLike = std::convertible_to<R, Rank>;

template <class In, class V>
std::vector<std::size_t> all_gather_sizing(const In& in, V& out, const ProcessGroup& group, CallOptions options) {
  Request request = labelled(out_of_place(Operation::all_gather_v, in, out), "all_gather_v");
  check_exchanging(request, group, options);
  request.counts = exchange_counts(request, group, options);
  resize_together(out, request.counts.total(), group);
  request.out = writable_view_of(out);
  run(request, group, options);
  return as_vector(request.counts);
}

template <class In, class V>
std::vector<std::size_t> gather_sizing(const In& in, V& out, Rank dst, const ProcessGroup& group, CallOptions options) {
  Request request = labelled(rooted(out_of_place(Operation::gather_v, in, out), dst), "gather_v");
  check_exchanging(request, group, options);
  request.counts = exchange_counts(request, group, options);
  if (rank_is(dst, group)) resize_together(out, request.counts.total(), group);
  request.out = writable_view_of(out);
  run(request, group, options);
  return as_vector(request.counts);
}

template <class In, class V>
std::vector<std::size_t> all_to_all_sizing(const In& in, const Counts& send_counts, V& out, const ProcessGroup& group, CallOptions options) {
  Request request = labelled(counted(out_of_place(Operation::all_to_all_v, in, out), send_counts), "all_to_all_v");
  check_exchanging(request, group, options);
  request.recv_counts = exchange_counts(request, group, options);
  resize_together(out, request.recv_counts.total(), group);
  request.out = writable_view_of(out);
  run(request, group, options);
  return as_vector(request.recv_counts);
}

}  // namespace detail

/// in: counts[rank()] elements; out: the blocks of all ranks. `in` may be the caller's own block of `out`.
template <InBuffer In, Buffer B>
void all_gather_v(const In& in, B&& out, const Counts& counts, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::counted(detail::out_of_place(Operation::all_gather_v, in, out), counts), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_gather_v_async(const In& in, B&& out, const Counts& counts, const ProcessGroup& group = current_world(),
                                      const CallOptions& options = {}) {
  return detail::start(detail::counted(detail::out_of_place(Operation::all_gather_v, in, out), counts), group, options);
}
/// The same where no rank knows the length of the others' blocks: the vector becomes as long as all of them together. Returns the counts.
template <InBuffer In, detail::Growable V>
std::vector<std::size_t> all_gather_v(const In& in, V& out, detail::Caller caller = detail::Caller::here()) {
  return detail::all_gather_sizing(in, out, current_world(caller.where()), {.where = caller.where()});
}
template <InBuffer In, detail::Growable V, detail::Group G>
std::vector<std::size_t> all_gather_v(const In& in, V& out, const G& group, const CallOptions& options = {}) {
  return detail::all_gather_sizing(in, out, group, options);
}

/// The same at rank `dst` only; elsewhere `out` stays as it is and may be empty.
template <InBuffer In, Buffer B>
void gather_v(const In& in, B&& out, const Counts& counts, Rank dst = 0, const ProcessGroup& group = current_world(),
              const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::counted(detail::out_of_place(Operation::gather_v, in, out), counts), dst), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work gather_v_async(const In& in, B&& out, const Counts& counts, Rank dst = 0, const ProcessGroup& group = current_world(),
                                  const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::counted(detail::out_of_place(Operation::gather_v, in, out), counts), dst), group, options);
}
/// The counts, and at rank `dst` the blocks, where only each rank knows the length of its own.
template <InBuffer In, detail::Growable V>
std::vector<std::size_t> gather_v(const In& in, V& out, detail::Caller caller = detail::Caller::here()) {
  return detail::gather_sizing(in, out, 0, current_world(caller.where()), {.where = caller.where()});
}
template <InBuffer In, detail::Growable V, detail::RankLike R>
std::vector<std::size_t> gather_v(const In& in, V& out, const R& dst, const ProcessGroup& group = current_world(),
                                  const CallOptions& options = {}) {
  return detail::gather_sizing(in, out, dst, group, options);
}

/// `in` of rank `src`: the blocks of all ranks; out: counts[rank()] elements. Elsewhere `in` does not count and may be empty.
template <InBuffer In, Buffer B>
void scatter_v(const In& in, const Counts& counts, B&& out, Rank src = 0, const ProcessGroup& group = current_world(),
               const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::counted(detail::out_of_place(Operation::scatter_v, in, out), counts), src), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work scatter_v_async(const In& in, const Counts& counts, B&& out, Rank src = 0, const ProcessGroup& group = current_world(),
                                   const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::counted(detail::out_of_place(Operation::scatter_v, in, out), counts), src), group, options);
}

/// in: a block for each rank; out: counts[rank()] elements, the combination of all ranks' block for this one.
template <InBuffer In, Buffer B>
void reduce_scatter_v(const In& in, const Counts& counts, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum,
                      const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::counted(detail::out_of_place(Operation::reduce_scatter_v, in, out, op), counts), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work reduce_scatter_v_async(const In& in, const Counts& counts, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum,
                                          const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::counted(detail::out_of_place(Operation::reduce_scatter_v, in, out, op), counts), group, options);
}

/// in: send_counts[r] elements for each rank r; out: recv_counts[r] from each. They must not overlap.
template <InBuffer In, Buffer B>
void all_to_all_v(const In& in, const Counts& send_counts, B&& out, const Counts& recv_counts, const ProcessGroup& group = current_world(),
                  const CallOptions& options = {}) {
  detail::Request request = detail::counted(detail::out_of_place(Operation::all_to_all_v, in, out), send_counts);
  request.recv_counts = recv_counts;
  detail::run(request, group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_to_all_v_async(const In& in, const Counts& send_counts, B&& out, const Counts& recv_counts,
                                      const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::Request request = detail::counted(detail::out_of_place(Operation::all_to_all_v, in, out), send_counts);
  request.recv_counts = recv_counts;
  return detail::start(request, group, options);
}
/// The same where only the sender knows how much it sends. Returns the receive counts.
template <InBuffer In, detail::Growable V>
std::vector<std::size_t> all_to_all_v(const In& in, const Counts& send_counts, V& out, detail::Caller caller = detail::Caller::here()) {
  return detail::all_to_all_sizing(in, send_counts, out, current_world(caller.where()), {.where = caller.where()});
}
template <InBuffer In, detail::Growable V, detail::Group G>
std::vector<std::size_t> all_to_all_v(const In& in, const Counts& send_counts, V& out, const G& group, const CallOptions& options = {}) {
  return detail::all_to_all_sizing(in, send_counts, out, group, options);
}

// What is none of these says why. Counts in braces fit a Counts only.

template <class X, class... Rest>
requires(!InBuffer<X>) void all_gather_v(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class Y, class... Rest>
requires(!InBuffer<X>) void all_gather_v(X&&, Y&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X>) void gather_v(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class Y, class... Rest>
requires(!InBuffer<X>) void gather_v(X&&, Y&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X>) void scatter_v(X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X>) void reduce_scatter_v(X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X>) void all_to_all_v(X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class Y, class... Rest>
requires(!InBuffer<X>) void all_to_all_v(X&&, const Counts&, Y&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void all_gather_v(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void all_gather_v(const In&, X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void gather_v(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void gather_v(const In&, X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void scatter_v(const In&, const Counts&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void reduce_scatter_v(const In&, const Counts&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void all_to_all_v(const In&, const Counts&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void all_to_all_v(const In&, const Counts&, X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, Buffer B>
requires(!detail::Growable<std::remove_cvref_t<B>>) void all_gather_v(const In&, B&&) { detail::refuse_as_growable<B>(); }
template <InBuffer In, Buffer B>
requires(!detail::Growable<std::remove_cvref_t<B>>) void gather_v(const In&, B&&) { detail::refuse_as_growable<B>(); }
template <InBuffer In, Buffer B>
requires(!detail::Growable<std::remove_cvref_t<B>>) void all_to_all_v(const In&, const Counts&, B&&) { detail::refuse_as_growable<B>(); }

}  // namespace unisono
