#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/counts.h"
#include "unisono/detail/collective_refusals.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/detail/request.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Collectives on blocks whose length differs from rank to rank (MPI_Allgatherv and its like).
//
// A Counts says how many elements the block of each rank has; the blocks lie one behind the other
// in group order, without gaps. There are two kinds of call:
//
// - with counts, which all ranks know and give alike. Counts that differ between ranks are Mismatch
//   on all of them;
// - without counts, where each rank knows its own length only. The call exchanges the lengths
//   first, resizes a std::vector to fit, and returns the counts. It costs one small exchange more.
//
// ```cpp
// std::vector<int> all;
// const auto counts = all_gather_v(mine, all);       // counts[r]: the elements of rank r within all
// ```
//
// InvalidArgument is thrown where counts are not one for each rank, where one is negative, and
// where a buffer is not as long as the counts say; nothing is sent then. MPI has displacements
// beside counts; here blocks that lie apart are a list of buffers (collectives_lists.h).

namespace unisono {

namespace detail {

/// Gives a request the name of the function that the user called, and returns it.
inline Request&& labelled(Request&& request, std::string_view label) {
  request.label = label;
  return std::move(request);
}

/// Gives a request the lengths of its blocks and returns it.
inline Request&& counted(Request&& request, const Counts& counts) {
  request.counts = counts;
  return std::move(request);
}

/// Collective: returns the length of each rank's input; for all_to_all_v, the length of what each
/// rank sends to this one. Mismatch is thrown on all ranks if their dtypes differ. The time that
/// this takes is subtracted from the timeout in `options`.
UNISONO_API Counts exchange_counts(const Request& request, const ProcessGroup& group, CallOptions& options);

/// Ends the group with this reason, after the other ranks have seen that this one has begun the
/// call.
UNISONO_API void abandon(const ProcessGroup& group, const std::exception_ptr& reason);

/// Resizes the output. If memory is short, the group ends, since the other ranks wait for this one.
template <class V>
void resize_together(V& out, std::size_t n, const ProcessGroup& group) {
  try {
    out.resize(n);
  } catch (...) {
    abandon(group, std::current_exception());
    throw;
  }
}

/// Throws InvalidArgument for a call that is wrong by itself and whose output is still to be sized,
/// before it sends anything.
UNISONO_API void check_exchanging(const Request& request, const ProcessGroup& group, const CallOptions& options);

/// Returns the counts as the type that users get.
inline std::vector<std::size_t> as_vector(const Counts& counts) { return {counts.begin(), counts.end()}; }

/// A ProcessGroup, and nothing that would first have to be converted to one: braces in this place
/// are counts.
template <class G>
concept Group = std::same_as<G, ProcessGroup>;

/// An argument that names a rank.
template <class R>
concept RankLike = std::convertible_to<R, Rank>;

/// Carries out a call whose lengths, its `counts`, are exchanged, and whose output is sized by them
/// on the ranks that have one. Returns the counts.
template <class V>
std::vector<std::size_t> run_sizing(Request request, Counts Request::*counts, V& out, const ProcessGroup& group, CallOptions options) {
  request.label = to_string(request.operation);
  check_exchanging(request, group, options);
  request.*counts = exchange_counts(request, group, options);
  if (!request.root || rank_is(*request.root, group)) resize_together(out, (request.*counts).total(), group);
  request.out = writable_view_of(out);
  run(request, group, options);
  return as_vector(request.*counts);
}

/// Carries out an all_gather_v whose lengths are exchanged.
template <class In, class V>
std::vector<std::size_t> all_gather_sizing(const In& in, V& out, const ProcessGroup& group, const CallOptions& options) {
  return run_sizing(out_of_place(Operation::all_gather_v, in, out), &Request::counts, out, group, options);
}

/// Carries out a gather_v whose lengths are exchanged.
template <class In, class V>
std::vector<std::size_t> gather_sizing(const In& in, V& out, Rank dst, const ProcessGroup& group, const CallOptions& options) {
  return run_sizing(rooted(out_of_place(Operation::gather_v, in, out), dst), &Request::counts, out, group, options);
}

/// Carries out an all_to_all_v whose receive counts are exchanged.
template <class In, class V>
std::vector<std::size_t> all_to_all_sizing(const In& in, const Counts& send_counts, V& out, const ProcessGroup& group, const CallOptions& options) {
  return run_sizing(counted(out_of_place(Operation::all_to_all_v, in, out), send_counts), &Request::recv_counts, out, group, options);
}

}  // namespace detail

/// Collects the blocks of all ranks on every rank, if all ranks know all lengths.
///
/// @param in this rank's block, counts[rank()] elements; it may be this rank's own block of `out`
/// @param out the blocks of all ranks, counts.total() elements
/// @param counts the same on every rank
template <InBuffer In, Buffer B>
void all_gather_v(const In& in, B&& out, const Counts& counts, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::counted(detail::out_of_place(Operation::all_gather_v, in, out), counts.borrowed()), group, options);
}

/// Starts `all_gather_v(in, out, counts)` and returns at once. The buffers belong to the library
/// until the Work is done; the counts are copied.
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_gather_v_async(const In& in, B&& out, const Counts& counts, const ProcessGroup& group = current_world(),
                                      const CallOptions& options = {}) {
  return detail::start(detail::counted(detail::out_of_place(Operation::all_gather_v, in, out), counts), group, options);
}

/// Collects the blocks of all ranks on every rank of the world, if no rank knows the lengths of the
/// others. `out` becomes as long as all blocks together, and `in` must not lie in it. Returns the
/// counts.
template <InBuffer In, detail::Growable V>
std::vector<std::size_t> all_gather_v(const In& in, V& out, detail::Caller caller = detail::Caller::here()) {
  return detail::all_gather_sizing(in, out, current_world(caller.where()), {.where = caller.where()});
}

/// Takes a group other than the world.
template <InBuffer In, detail::Growable V, detail::Group G>
std::vector<std::size_t> all_gather_v(const In& in, V& out, const G& group, const CallOptions& options = {}) {
  return detail::all_gather_sizing(in, out, group, options);
}

/// Collects the blocks of all ranks on rank `dst`. On every other rank `out` is ignored and may be
/// empty.
template <InBuffer In, Buffer B>
void gather_v(const In& in, B&& out, const Counts& counts, Rank dst = 0, const ProcessGroup& group = current_world(),
              const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::counted(detail::out_of_place(Operation::gather_v, in, out), counts.borrowed()), dst), group, options);
}

/// Starts `gather_v(in, out, counts, dst)` and returns at once.
template <InBuffer In, Buffer B>
[[nodiscard]] Work gather_v_async(const In& in, B&& out, const Counts& counts, Rank dst = 0, const ProcessGroup& group = current_world(),
                                  const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::counted(detail::out_of_place(Operation::gather_v, in, out), counts), dst), group, options);
}

/// Collects the blocks of all ranks on rank 0 of the world, if each rank knows its own length
/// only. Returns the counts on every rank; `out` is resized on rank 0 and keeps its elements
/// elsewhere.
template <InBuffer In, detail::Growable V>
std::vector<std::size_t> gather_v(const In& in, V& out, detail::Caller caller = detail::Caller::here()) {
  return detail::gather_sizing(in, out, 0, current_world(caller.where()), {.where = caller.where()});
}

/// Takes the rank, and a group other than the world.
template <InBuffer In, detail::Growable V, detail::RankLike R>
std::vector<std::size_t> gather_v(const In& in, V& out, const R& dst, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::gather_sizing(in, out, dst, group, options);
}

/// Shares out the blocks of rank `src`: `out` of rank r becomes its block r.
///
/// @param in the blocks of all ranks on rank `src`, counts.total() elements; elsewhere it is
///   ignored and may be empty
/// @param out this rank's block, counts[rank()] elements
template <InBuffer In, Buffer B>
void scatter_v(const In& in, const Counts& counts, B&& out, Rank src = 0, const ProcessGroup& group = current_world(),
               const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::counted(detail::out_of_place(Operation::scatter_v, in, out), counts.borrowed()), src), group, options);
}

/// Starts `scatter_v(in, counts, out, src)` and returns at once.
template <InBuffer In, Buffer B>
[[nodiscard]] Work scatter_v_async(const In& in, const Counts& counts, B&& out, Rank src = 0, const ProcessGroup& group = current_world(),
                                   const CallOptions& options = {}) {
  return detail::start(detail::rooted(detail::counted(detail::out_of_place(Operation::scatter_v, in, out), counts), src), group, options);
}

/// Combines the inputs of all ranks block by block, and gives each rank its own block of the
/// result.
///
/// @param in a block for each rank, counts.total() elements
/// @param out counts[rank()] elements: the combination of all ranks' block for this rank
template <InBuffer In, Buffer B>
void reduce_scatter_v(const In& in, const Counts& counts, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum,
                      const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::counted(detail::out_of_place(Operation::reduce_scatter_v, in, out, op), counts.borrowed()), group, options);
}

/// Starts `reduce_scatter_v(in, counts, out, op)` and returns at once.
template <InBuffer In, Buffer B>
[[nodiscard]] Work reduce_scatter_v_async(const In& in, const Counts& counts, B&& out, const detail::reduction_for<B>& op = ReduceOp::sum,
                                          const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::counted(detail::out_of_place(Operation::reduce_scatter_v, in, out, op), counts), group, options);
}

/// Sends a block to each rank and receives one from each, if both sides know the lengths.
///
/// @param in send_counts[r] elements for each rank r
/// @param out recv_counts[r] elements from each rank r; it must not overlap `in`
/// @throws Mismatch on all ranks if a rank sends another number of elements than its receiver
///   expects
template <InBuffer In, Buffer B>
void all_to_all_v(const In& in, const Counts& send_counts, B&& out, const Counts& recv_counts, const ProcessGroup& group = current_world(),
                  const CallOptions& options = {}) {
  detail::Request request = detail::out_of_place(Operation::all_to_all_v, in, out);
  request.counts = send_counts.borrowed();
  request.recv_counts = recv_counts.borrowed();
  detail::run(request, group, options);
}

/// Starts `all_to_all_v(in, send_counts, out, recv_counts)` and returns at once.
template <InBuffer In, Buffer B>
[[nodiscard]] Work all_to_all_v_async(const In& in, const Counts& send_counts, B&& out, const Counts& recv_counts,
                                      const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::Request request = detail::counted(detail::out_of_place(Operation::all_to_all_v, in, out), send_counts);
  request.recv_counts = recv_counts;
  return detail::start(request, group, options);
}

/// Sends a block to each rank of the world and receives one from each, if only the sender knows
/// the length. `out` is resized to what comes, in group order. Returns the receive counts.
template <InBuffer In, detail::Growable V>
std::vector<std::size_t> all_to_all_v(const In& in, const Counts& send_counts, V& out, detail::Caller caller = detail::Caller::here()) {
  return detail::all_to_all_sizing(in, send_counts, out, current_world(caller.where()), {.where = caller.where()});
}

/// Takes a group other than the world.
template <InBuffer In, detail::Growable V, detail::Group G>
std::vector<std::size_t> all_to_all_v(const In& in, const Counts& send_counts, V& out, const G& group, const CallOptions& options = {}) {
  return detail::all_to_all_sizing(in, send_counts, out, group, options);
}

}  // namespace unisono
