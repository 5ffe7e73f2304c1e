#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <vector>

#include "unisono/collectives_lists.h"
#include "unisono/collectives_v.h"
#include "unisono/detail/object_concept.h"
#include "unisono/detail/refusals.h"
#include "unisono/detail/request.h"
#include "unisono/detail/standard.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/multigpu.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/with_place.h"
#include "unisono/work.h"

// Collectives: every rank of the group calls the same one with the same operation, dtype, count and root, else all of them throw Mismatch.
// A buffer is worked on in place, a value is returned. NAME_async returns at once; the buffers belong to the library until its Work is done.
// All of them throw InvalidArgument for what is wrong by itself, Timeout, PeerFailed, and NotInitialized (see error.h).

namespace unisono {

namespace detail {

/// The argument of a collective: a buffer to work on in place, or a value.
template <class X>
concept in_or_value = Buffer<X> || value<X>;
template <class Op, class X>
concept operation_for = std::convertible_to<Op, Reduction<element_type_t<X>>> ||
    (value<X>&& std::convertible_to<Op, Reduction<std::remove_cvref_t<X>>>);

/// The sum of integers is taken in 128 bits, of anything else in long double.
template <class T>
double exact_mean(const std::vector<T>& values) {
  using Sum = std::conditional_t<std::is_integral_v<T>, __int128_t, long double>;
  Sum sum = 0;
  for (const T& x : values) sum += static_cast<Sum>(x);
  return static_cast<double>(static_cast<long double>(sum) / static_cast<long double>(values.size()));
}

}  // namespace detail

/// Every rank's x becomes the combination of all ranks' x, bit for bit the same everywhere. Same length and dtype on every rank.
template <Buffer B>
void all_reduce(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                const CallOptions& options = {}) {
  detail::run(detail::in_place(Operation::all_reduce, x, op), group, options);
}
template <Buffer B>
[[nodiscard]] Work all_reduce_async(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                    const CallOptions& options = {}) {
  return detail::start(detail::in_place(Operation::all_reduce, x, op), group, options);
}
/// The same out of place: `in` and `out` have the same length, and are the same memory or do not touch.
template <InBuffer In, Buffer B>
void all_reduce(const In& in, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                const CallOptions& options = {}) {
  detail::run(detail::out_of_place(Operation::all_reduce, in, out, op), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_reduce_async(const In& in, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum,
                                    const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::out_of_place(Operation::all_reduce, in, out, op), group, options);
}
/// x of rank `dst` becomes the combination; the other ranks' x stays as it is.
template <Buffer B>
void reduce(B&& x, Rank dst, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
            const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::in_place(Operation::reduce, x, op), dst), group, options);
}
template <Buffer B>
[[nodiscard]] Work reduce_async(B&& x, Rank dst, const detail::reduction_for<B>& op = ReduceOp::sum,
                                const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::in_place(Operation::reduce, x, op), dst), group, options);
}
/// x of every rank becomes that of rank `src`.
template <Buffer B>
void broadcast(B&& x, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::in_place(Operation::broadcast, x), src), group, options);
}
template <Buffer B>
[[nodiscard]] Work broadcast_async(B&& x, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::in_place(Operation::broadcast, x), src), group, options);
}
/// out: size() blocks of the length of `in`, block r from rank r. `in` may be the caller's own block of `out`.
template <InBuffer In, Buffer B>
void all_gather(const In& in, B&& out, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::out_of_place(Operation::all_gather, in, out), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_gather_async(const In& in, B&& out, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::out_of_place(Operation::all_gather, in, out), group, options);
}
/// The same at rank `dst` only; elsewhere `out` stays as it is and may be empty.
template <InBuffer In, Buffer B>
void gather(const In& in, B&& out, Rank dst = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::out_of_place(Operation::gather, in, out), dst), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work gather_async(const In& in, B&& out, Rank dst = 0, const ProcessGroup& group = current_world(),
                                const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::out_of_place(Operation::gather, in, out), dst), group, options);
}
/// `in` of rank `src`: size() blocks of the length of `out`; rank r gets block r. Elsewhere `in` does not count and may be empty.
template <InBuffer In, Buffer B>
void scatter(const In& in, B&& out, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::out_of_place(Operation::scatter, in, out), src), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work scatter_async(const In& in, B&& out, Rank src = 0, const ProcessGroup& group = current_world(),
                                 const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::out_of_place(Operation::scatter, in, out), src), group, options);
}
/// in: size() blocks of the length of `out`; rank r gets the combination of all ranks' block r.
template <InBuffer In, Buffer B>
void reduce_scatter(const In& in, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                    const CallOptions& options = {}) {
  detail::run(detail::out_of_place(Operation::reduce_scatter, in, out, op), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work reduce_scatter_async(const In& in, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum,
                                        const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::out_of_place(Operation::reduce_scatter, in, out, op), group, options);
}
/// in and out: size() blocks each; block r of `in` goes to rank r, block r of `out` comes from it. They must not overlap.
template <InBuffer In, Buffer B>
void all_to_all(const In& in, B&& out, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::out_of_place(Operation::all_to_all, in, out), group, options);
}
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_to_all_async(const In& in, B&& out, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::out_of_place(Operation::all_to_all, in, out), group, options);
}
/// Inclusive prefix: x becomes the combination of ranks 0 … rank(). Not avg.
template <Buffer B>
void scan(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
          const CallOptions& options = {}) {
  detail::run(detail::in_place(Operation::scan, x, op), group, options);
}
template <Buffer B>
[[nodiscard]] Work scan_async(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                              const CallOptions& options = {}) {
  return detail::start(detail::in_place(Operation::scan, x, op), group, options);
}
/// Exclusive prefix: x becomes the combination of ranks 0 … rank()-1; rank 0's x stays as it is. Not avg.
template <Buffer B>
void exscan(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
            const CallOptions& options = {}) {
  detail::run(detail::in_place(Operation::exscan, x, op), group, options);
}
template <Buffer B>
[[nodiscard]] Work exscan_async(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                const CallOptions& options = {}) {
  return detail::start(detail::in_place(Operation::exscan, x, op), group, options);
}

// Values: one element, given by value, its result returned.

template <Element T>
[[nodiscard]] T all_reduce(T x, const std::type_identity_t<Reduction<T>>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                           const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run({Operation::all_reduce, view, view, op.op(), op.custom(), op.factor()}, group, options);
  return x;
}
/// nullopt everywhere but at rank `dst`.
template <Element T>
[[nodiscard]] std::optional<T> reduce(T x, Rank dst, const std::type_identity_t<Reduction<T>>& op = ReduceOp::sum,
                                      const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run({Operation::reduce, view, view, op.op(), op.custom(), op.factor(), dst}, group, options);
  if (detail::rank_is(dst, group)) return x;
  return std::nullopt;
}
template <Element T>
[[nodiscard]] T broadcast(T x, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run(detail::rooted({Operation::broadcast, view, view}, src), group, options);
  return x;
}
/// Element r from rank r.
template <Element T>
[[nodiscard]] std::vector<T> all_gather(T x, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::Values<T> all(static_cast<std::size_t>(group.size()));
  detail::run({Operation::all_gather, detail::view_of_value(x), all.view()}, group, options);
  return all.take();
}
/// nullopt everywhere but at rank `dst`.
template <Element T>
[[nodiscard]] std::optional<std::vector<T>> gather(T x, Rank dst = 0, const ProcessGroup& group = current_world(),
                                                   const CallOptions& options = {}) {
  detail::Values<T> all(static_cast<std::size_t>(group.size()));
  detail::run(detail::rooted({Operation::gather, detail::view_of_value(x), all.view()}, dst), group, options);
  if (detail::rank_is(dst, group)) return all.take();
  return std::nullopt;
}
template <Element T>
[[nodiscard]] T scan(T x, const std::type_identity_t<Reduction<T>>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                     const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run({Operation::scan, view, view, op.op(), op.custom(), op.factor()}, group, options);
  return x;
}
/// Rank 0 gets its own x back.
template <Element T>
[[nodiscard]] T exscan(T x, const std::type_identity_t<Reduction<T>>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                       const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run({Operation::exscan, view, view, op.op(), op.custom(), op.factor()}, group, options);
  return x;
}
/// The exact average of the ranks' x, rounded once: integers of any size neither wrap nor truncate.
template <Element T>
requires(!std::same_as<T, bool> && !std::same_as<T, std::byte> && !detail::complex_number<T>)
    [[nodiscard]] double mean(T x, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  const std::vector<T> all = all_gather(x, group, options);
  return detail::exact_mean(all);
}

/// Returns once every rank of the group has entered it.
UNISONO_API void barrier(const ProcessGroup& group = current_world(), const CallOptions& options = {});
[[nodiscard]] UNISONO_API Work barrier_async(const ProcessGroup& group = current_world(), const CallOptions& options = {});
/// A barrier whose Timeout names every rank that did not come (Timeout::missing).
UNISONO_API void monitored_barrier(std::chrono::milliseconds timeout, const ProcessGroup& group = current_world(),
                                   std::source_location where = std::source_location::current());
UNISONO_API void synchronize(const ProcessGroup& group = current_world(), std::source_location where = std::source_location::current());

// What is none of these says why.

template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !detail::takes_place<X> &&
         !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void all_reduce(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !detail::takes_place<X> && !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void reduce(X&&,
                                                                                                                                          Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !detail::object_value<X> &&
         !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void broadcast(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !detail::takes_place<X> && !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void scan(X&&,
                                                                                                                                        Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void exscan(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X> && !(detail::object_value<X> && !detail::begins_with_buffer<Rest...>)) void all_gather(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X> && !(detail::object_value<X> && !detail::begins_with_buffer<Rest...>)) void gather(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X> && !detail::in_list<X>) void scatter(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X>) void reduce_scatter(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X>) void all_to_all(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X> && !detail::text<X>) void all_reduce(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void all_gather(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void gather(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void scatter(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void reduce_scatter(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void all_to_all(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(InBuffer<X> && !detail::object_value<X> && !detail::begins_with_buffer<Rest...>) void all_gather(X&&, Rest&&...) {
  detail::refuse_as_value<X>();
}
template <class X, class... Rest>
requires(InBuffer<X> && !detail::object_value<X> && !detail::begins_with_buffer<Rest...>) void gather(X&&, Rest&&...) {
  detail::refuse_as_value<X>();
}
template <class X, class... Rest>
requires(!detail::value<X>) void mean(X&&, Rest&&...) { detail::refuse_as_value<X>(); }

// Text, a number or a group in place of the operation; an optional group, a number or the options in place of the group.

template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void all_reduce(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void all_reduce(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void all_reduce_async(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void all_reduce_async(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void scan(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void scan(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void scan_async(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void scan_async(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void exscan(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void exscan(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void exscan_async(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void exscan_async(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void reduce(X&&, Rank, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void reduce(X&&, Rank, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void reduce_async(X&&, Rank, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void reduce_async(X&&, Rank, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <InBuffer In, Buffer B, class Op, class... Rest>
requires detail::no_operation<Op>
void all_reduce(const In&, B&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <InBuffer In, Buffer B, class Op, class G, class... Rest>
requires(detail::operation_for<Op, B>&& detail::misplaced_group<G>) void all_reduce(const In&, B&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <InBuffer In, Buffer B, class Op, class... Rest>
requires detail::no_operation<Op>
void all_reduce_async(const In&, B&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <InBuffer In, Buffer B, class Op, class G, class... Rest>
requires(detail::operation_for<Op, B>&& detail::misplaced_group<G>) void all_reduce_async(const In&, B&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <InBuffer In, Buffer B, class Op, class... Rest>
requires detail::no_operation<Op>
void reduce_scatter(const In&, B&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <InBuffer In, Buffer B, class Op, class G, class... Rest>
requires(detail::operation_for<Op, B>&& detail::misplaced_group<G>) void reduce_scatter(const In&, B&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <InBuffer In, Buffer B, class Op, class... Rest>
requires detail::no_operation<Op>
void reduce_scatter_async(const In&, B&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <InBuffer In, Buffer B, class Op, class G, class... Rest>
requires(detail::operation_for<Op, B>&& detail::misplaced_group<G>) void reduce_scatter_async(const In&, B&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::misplaced_group<G>) void broadcast(X&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <class X, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::misplaced_group<G>) void broadcast_async(X&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void all_gather(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void all_gather_async(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void all_to_all(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void all_to_all_async(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void gather(const In&, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void gather_async(const In&, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void scatter(const In&, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void scatter_async(const In&, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <class G, class... Rest>
requires detail::misplaced_group<G>
void barrier(G&&, Rest&&...) { detail::refuse_as_group<G>(); }
}  // namespace unisono
