// Collectives on blocks of different length, one for each rank.

#include <string>

#include "calls.h"
#include "docs/counted.h"
#include "failure.h"
#include "module.h"
#include "signals.h"
#include "unisono/collectives_v.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

nb::object list_of(const Counts& counts) {
  nb::list list;
  for (const std::size_t n : counts) list.append(n);
  return list;
}

/// A new array for what comes; where there is no memory for it, the others must not wait.
nb::object sized(nb::handle like, const TensorView& view, std::size_t n, const ProcessGroup& group) {
  try {
    return empty_like(like, view, {static_cast<std::int64_t>(n)});
  } catch (nb::python_error& error) {
    Raised raised(error);
    unlocked([&, reason = std::make_exception_ptr(raised)] { detail::abandon(group, reason); });
    throw raised;
  }
}

/// Carries out a call that learns from the other ranks how long its output is: a new array. Returns it, or None where there is none, and the counts.
nb::object run_sized(detail::Request request, Counts detail::Request::*learned, const Buffer& in, bool has_output, const Trailing& trailing) {
  Trailing rest = trailing;
  request.label = name_of(request.operation);
  request.*learned = unlocked([&] {
    detail::check_exchanging(request, trailing.group, trailing.options);
    return detail::exchange_counts(request, trailing.group, rest.options);
  });
  nb::object out = nb::none();
  std::optional<Buffer> to;
  if (has_output) {
    out = sized(in.object(), request.in, (request.*learned).total(), trailing.group);
    request.out = to.emplace(out, Use::fill, "").view();
  }
  carry_out(request, rest, in.stream(), to ? &*to : nullptr);
  return nb::make_tuple(out, list_of(request.*learned));
}

detail::Request request_from(Operation operation, const Buffer& in) { return request_of(operation, in.view(), detail::nothing(in.view().dtype())); }

/// Carries out, or starts, a call whose counts this rank knows. `fill` says what else there is to it.
template <bool IsAsync, class Fill>
nb::object counted(Operation operation, nb::handle x, nb::handle out, nb::handle counts, std::optional<Rank> root, const Trailing& trailing,
                   Fill&& fill) {
  const OperationTraits& traits = traits_of(operation);
  const char* const name = name_of(operation);
  const bool has_result = traits.receivers == Participants::all_ranks || is_here(*root, trailing.group);
  Memory memory;
  detail::Request request = request_of(operation, detail::nothing(), detail::nothing());
  request.root = root;
  request.counts = counts_of(counts, name);
  const bool has_input = traits.senders == Participants::all_ranks || !x.is_none();
  if (has_input) request.in = memory.add(x, Use::read, name);
  nb::object to = nb::borrow(out);
  const bool is_made = operation == Operation::gather_v && has_result && out.is_none();
  if (is_made) to = empty_like(x, request.in, {static_cast<std::int64_t>(request.counts.total())});
  if (has_result || !out.is_none()) request.out = memory.add(to, !has_result ? Use::read : is_made ? Use::fill : Use::write, name);
  else request.out = detail::nothing(request.in.dtype());
  if (!has_input) request.in = detail::nothing(request.out.dtype());
  if (has_result) memory.result = std::move(to);
  fill(request);
  return conclude<IsAsync>(request, trailing, std::move(memory));
}
constexpr auto nothing_more = [](detail::Request&) {};

template <bool IsAsync>
nb::object all_gather_v(nb::handle x, nb::handle out, nb::handle counts, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_gather_v");
  if (counts.is_none() != out.is_none()) throw_invalid("all_gather_v", "the output and the counts are given together, or neither of them");
  if (counts.is_none()) {
    const Buffer in(x, Use::read, "all_gather_v");
    return run_sized(request_from(Operation::all_gather_v, in), &detail::Request::counts, in, true, trailing);
  }
  return counted<IsAsync>(Operation::all_gather_v, x, out, counts, std::nullopt, trailing, nothing_more);
}

template <bool IsAsync>
nb::object gather_v(nb::handle x, nb::handle out, nb::handle counts, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "gather_v");
  const Rank root = rank_of(dst, "gather_v");
  if (!counts.is_none()) return counted<IsAsync>(Operation::gather_v, x, out, counts, root, trailing, nothing_more);
  if (!out.is_none()) throw_invalid("gather_v", "the output is given without the counts");
  const Buffer in(x, Use::read, "gather_v");
  detail::Request request = request_from(Operation::gather_v, in);
  request.root = root;
  return run_sized(std::move(request), &detail::Request::counts, in, is_here(root, trailing.group), trailing);
}

template <bool IsAsync>
nb::object scatter_v(nb::handle x, nb::handle counts, nb::handle out, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "scatter_v");
  return counted<IsAsync>(Operation::scatter_v, x, out, counts, rank_of(src, "scatter_v"), trailing, nothing_more);
}

template <bool IsAsync>
nb::object reduce_scatter_v(nb::handle x, nb::handle counts, nb::handle out, nb::handle op, nb::handle group, nb::handle timeout, int tag,
                            bool deterministic) {
  const Trailing trailing(group, timeout, tag, "reduce_scatter_v", deterministic);
  return counted<IsAsync>(Operation::reduce_scatter_v, x, out, counts, std::nullopt, trailing,
                          [&](detail::Request& request) { combination_of(op, request.out.dtype(), "reduce_scatter_v").apply(request); });
}

template <bool IsAsync>
nb::object all_to_all_v(nb::handle x, nb::handle send_counts, nb::handle out, nb::handle recv_counts, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_to_all_v");
  if (recv_counts.is_none() != out.is_none()) {
    throw_invalid("all_to_all_v", "the output and the receive counts are given together, or neither of them");
  }
  if (out.is_none()) {
    const Buffer in(x, Use::read, "all_to_all_v");
    detail::Request request = request_from(Operation::all_to_all_v, in);
    request.counts = counts_of(send_counts, "all_to_all_v");
    return run_sized(std::move(request), &detail::Request::recv_counts, in, true, trailing);
  }
  return counted<IsAsync>(Operation::all_to_all_v, x, out, send_counts, std::nullopt, trailing,
                          [&](detail::Request& request) { request.recv_counts = counts_of(recv_counts, "all_to_all_v"); });
}

}  // namespace

void bind_counted(nb::module_& m) {
  def_call(m, "all_gather_v", &all_gather_v<false>, &all_gather_v<true>, "x: Buffer, out: Buffer | None = None, counts: Counts | None = None",
           "x: Buffer, out: Buffer, counts: Counts", "typing.Any", docs::all_gather_v, "x"_a.none(), "out"_a = nb::none(), "counts"_a = nb::none());
  def_call(m, "all_gather_v_async", &all_gather_v<true>, "x: Buffer, out: Buffer, counts: Counts", "Work",
           async_docstring("all_gather_v", docs::all_gather_v, docs::all_gather_v_async), "x"_a.none(), "out"_a.none(), "counts"_a);
  def_call(m, "gather_v", &gather_v<false>, &gather_v<true>, "x: Buffer, out: Buffer | None = None, counts: Counts | None = None, dst: RankLike = 0",
           "x: Buffer, out: Buffer | None, counts: Counts, dst: RankLike = 0", "typing.Any", docs::gather_v, "x"_a.none(), "out"_a = nb::none(),
           "counts"_a = nb::none(), "dst"_a = 0);
  def_call(m, "gather_v_async", &gather_v<true>, "x: Buffer, out: Buffer | None, counts: Counts, dst: RankLike = 0", "Work",
           async_docstring("gather_v", docs::gather_v, docs::gather_v_async), "x"_a.none(), "out"_a.none(), "counts"_a, "dst"_a = 0);
  def_both(m, "scatter_v", &scatter_v<false>, &scatter_v<true>, "x: Buffer | None, counts: Counts, out: X, src: RankLike = 0",
           "x: Buffer | None, counts: Counts, out: Buffer, src: RankLike = 0", "X", docs::scatter_v, docs::scatter_v_async, "x"_a.none(), "counts"_a,
           "out"_a.none(), "src"_a = 0);
  def_both(m, "reduce_scatter_v", &reduce_scatter_v<false>, &reduce_scatter_v<true>, "x: Buffer, counts: Counts, out: X, op: Op = 'sum'",
           "x: Buffer, counts: Counts, out: Buffer, op: Op = 'sum'", "X", docs::reduce_scatter_v, docs::reduce_scatter_v_async, "x"_a.none(),
           "counts"_a, "out"_a.none(), "op"_a = sum_op());
  def_call(m, "all_to_all_v", &all_to_all_v<false>, &all_to_all_v<true>,
           "x: Buffer, send_counts: Counts, out: Buffer | None = None, recv_counts: Counts | None = None",
           "x: Buffer, send_counts: Counts, out: Buffer, recv_counts: Counts", "typing.Any", docs::all_to_all_v, "x"_a.none(), "send_counts"_a,
           "out"_a = nb::none(), "recv_counts"_a = nb::none());
  def_call(m, "all_to_all_v_async", &all_to_all_v<true>, "x: Buffer, send_counts: Counts, out: Buffer, recv_counts: Counts", "Work",
           async_docstring("all_to_all_v", docs::all_to_all_v, docs::all_to_all_v_async), "x"_a.none(), "send_counts"_a, "out"_a.none(),
           "recv_counts"_a);
}

}  // namespace unisono::python
