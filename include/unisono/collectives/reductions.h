#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <vector>

#include "unisono/collectives/data_movement.h"
#include "unisono/detail/floating_point.h"
#include "unisono/detail/collective_refusals.h"
#include "unisono/detail/request.h"
#include "unisono/detail/standard.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Collectives that combine the elements of all ranks: all_reduce, reduce, reduce_scatter, scan,
// exscan and mean.
//
// Every rank of the group calls the function with the same operation, dtype and length.
// collectives.h states the rules that all collectives share.

namespace unisono {

namespace detail {

/// Returns the mean of the values. Integers are summed in 128 bits and other numbers in long
/// double, so that no sum overflows.
template <class T>
double exact_mean(const std::vector<T>& values) {
  const FixedFloatingPoint fixed;
  using Sum = std::conditional_t<std::is_integral_v<T>, __int128_t, long double>;
  Sum sum = 0;
  for (const T& x : values) sum += static_cast<Sum>(x);
  return static_cast<double>(static_cast<long double>(sum) / static_cast<long double>(values.size()));
}

}  // namespace detail

/// Replaces `x` on every rank by the combination of all ranks' `x`, element by element.
///
/// The result has the same bits on every rank. Integer sums wrap, as in C++ unsigned arithmetic;
/// ReduceOp::avg of integers truncates toward zero, and mean() is exact. float16 and bfloat16 are
/// accumulated in float32 and rounded once, except by NCCL.
///
/// ```cpp
/// std::vector<float> gradients = compute();
/// all_reduce(gradients, ReduceOp::avg);              // in place, over all processes
/// all_reduce(gradients, [](float a, float b) { return a > b ? a : b; });
/// ```
///
/// @param x the buffer; all ranks give one of the same length and dtype
/// @param op a ReduceOp, premul_sum(factor), or an associative and commutative callable `T(T, T)`
/// @throws InvalidArgument if `op` has no meaning for the dtype (ReduceOp lists which have one)
template <Buffer B>
void all_reduce(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                const CallOptions& options = {}) {
  detail::run(detail::in_place(Operation::all_reduce, x, op), group, options);
}

/// Starts `all_reduce(x, op)` and returns at once. `x` belongs to the library until the Work is
/// done.
template <Buffer B>
[[nodiscard]] Work all_reduce_async(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                    const CallOptions& options = {}) {
  return detail::start(detail::in_place(Operation::all_reduce, x, op), group, options);
}

/// Writes the combination of all ranks' `in` to `out`; `in` keeps its elements.
///
/// Both have the same length. They must be the same memory or not overlap; otherwise the call throws
/// InvalidArgument.
template <InBuffer In, Buffer B>
void all_reduce(const In& in, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                const CallOptions& options = {}) {
  detail::run(detail::out_of_place(Operation::all_reduce, in, out, op), group, options);
}

/// Starts `all_reduce(in, out, op)` and returns at once. Both buffers belong to the library until
/// the Work is done.
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_reduce_async(const In& in, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum,
                                    const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::out_of_place(Operation::all_reduce, in, out, op), group, options);
}

/// Replaces `x` on rank `dst` by the combination of all ranks' `x`. On every other rank `x` keeps
/// its elements.
///
/// torch.distributed may leave intermediate results in the other ranks' buffers; here they are not
/// written to.
///
/// @param dst the rank within the group that gets the result; GlobalRank{r} names a rank of the
///   world
template <Buffer B>
void reduce(B&& x, Rank dst, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
            const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::in_place(Operation::reduce, x, op), dst), group, options);
}

/// Starts `reduce(x, dst, op)` and returns at once. `x` belongs to the library until the Work is
/// done.
template <Buffer B>
[[nodiscard]] Work reduce_async(B&& x, Rank dst, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::in_place(Operation::reduce, x, op), dst), group, options);
}

/// Combines the ranks' inputs block by block and gives each rank its own block of the result.
///
/// `in` holds group.size() blocks of the length of `out`, in group order. `out` of rank r becomes
/// the combination of block r of all ranks' inputs. `out` may be this rank's own block of `in`; it
/// must not overlap `in` in any other way.
///
/// ```cpp
/// std::vector<double> all(world_size() * n), mine(n);
/// reduce_scatter(all, mine);                         // mine = block rank() of the sum
/// ```
template <InBuffer In, Buffer B>
void reduce_scatter(const In& in, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                    const CallOptions& options = {}) {
  detail::run(detail::out_of_place(Operation::reduce_scatter, in, out, op), group, options);
}

/// Starts `reduce_scatter(in, out, op)` and returns at once. Both buffers belong to the library
/// until the Work is done.
template <InBuffer In, Buffer B>
[[nodiscard]] Work reduce_scatter_async(const In& in, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum,
                                        const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::out_of_place(Operation::reduce_scatter, in, out, op), group, options);
}

/// Replaces `x` by the combination of the ranks 0 … rank(), this one included (an inclusive prefix,
/// MPI_Scan).
///
/// @throws InvalidArgument for ReduceOp::avg and premul_sum
template <Buffer B>
void scan(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::in_place(Operation::scan, x, op), group, options);
}

/// Starts `scan(x, op)` and returns at once. `x` belongs to the library until the Work is done.
template <Buffer B>
[[nodiscard]] Work scan_async(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                              const CallOptions& options = {}) {
  return detail::start(detail::in_place(Operation::scan, x, op), group, options);
}

/// Replaces `x` by the combination of the ranks 0 … rank()-1, this one excluded (an exclusive
/// prefix, MPI_Exscan).
///
/// On rank 0, which has no lower rank, `x` keeps its elements; MPI leaves them undefined.
///
/// @throws InvalidArgument for ReduceOp::avg and premul_sum
template <Buffer B>
void exscan(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::in_place(Operation::exscan, x, op), group, options);
}

/// Starts `exscan(x, op)` and returns at once. `x` belongs to the library until the Work is done.
template <Buffer B>
[[nodiscard]] Work exscan_async(B&& x, const detail::reduction_for<B>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                                const CallOptions& options = {}) {
  return detail::start(detail::in_place(Operation::exscan, x, op), group, options);
}

// Values. The forms below take one element and return the result. A rank that gives a value and a
// rank that gives a buffer of one element match.

/// Returns the combination of the ranks' values, on every rank. The argument is taken by value and
/// not changed.
///
/// ```cpp
/// const int all_ready = all_reduce(int{ready}, ReduceOp::min);
/// ```
template <Element T>
[[nodiscard]] T all_reduce(T x, const std::type_identity_t<Reduction<T>>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                           const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run({Operation::all_reduce, view, view, op.op(), op.custom(), op.factor()}, group, options);
  return x;
}

/// Returns the combination of the ranks' values on rank `dst`, and std::nullopt on every other
/// rank.
template <Element T>
[[nodiscard]] std::optional<T> reduce(T x, Rank dst, const std::type_identity_t<Reduction<T>>& op = ReduceOp::sum,
                                      const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run({Operation::reduce, view, view, op.op(), op.custom(), op.factor(), dst}, group, options);
  if (detail::rank_is(dst, group)) return x;
  return std::nullopt;
}

/// Returns the combination of the values of the ranks 0 … rank().
template <Element T>
[[nodiscard]] T scan(T x, const std::type_identity_t<Reduction<T>>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                     const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run({Operation::scan, view, view, op.op(), op.custom(), op.factor()}, group, options);
  return x;
}

/// Returns the combination of the values of the ranks 0 … rank()-1. On rank 0 it returns the rank's
/// own value.
///
/// ```cpp
/// const std::size_t before = exscan(n);
/// const std::size_t offset = rank() == 0 ? 0 : before;   // where this rank's n items begin in a shared file
/// ```
template <Element T>
[[nodiscard]] T exscan(T x, const std::type_identity_t<Reduction<T>>& op = ReduceOp::sum, const ProcessGroup& group = current_world(),
                       const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run({Operation::exscan, view, view, op.op(), op.custom(), op.factor()}, group, options);
  return x;
}

/// Returns the exact average of the ranks' values, rounded once to double, on every rank.
///
/// Integers of any size neither wrap nor truncate, in contrast to `all_reduce(x, ReduceOp::avg)`.
/// The element type is any but bool, std::byte and the complex ones.
template <Element T>
requires(!std::same_as<T, bool> && !std::same_as<T, std::byte> && !detail::complex_number<T>)
    [[nodiscard]] double mean(T x, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  const std::vector<T> all = all_gather(x, group, options);
  return detail::exact_mean(all);
}

}  // namespace unisono
