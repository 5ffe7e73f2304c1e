// Collectives on blocks of different length, one for each rank.

#include <string>

#include "calls.h"
#include "failure.h"
#include "module.h"
#include "signals.h"
#include "unisono/collectives_v.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// What a call whose output is sized by itself has learned.
struct Sized {
  nb::object out;
  Counts counts;
};

nb::object list_of(const Counts& counts) {
  nb::list list;
  for (const std::size_t n : counts) list.append(n);
  return list;
}

Counts exchange(const detail::Request& request, const Trailing& trailing, CallOptions& options) {
  const Unlocked unlocked;
  detail::check_exchanging(request, trailing.group, options);
  return detail::exchange_counts(request, trailing.group, options);
}

/// A new array for what comes; where there is no memory for it, the others must not wait.
nb::object sized(nb::handle like, const TensorView& view, std::size_t n, const ProcessGroup& group) {
  try {
    return empty_like(like, view, {static_cast<std::int64_t>(n)});
  } catch (nb::python_error& error) {
    Raised raised(error);
    const auto reason = std::make_exception_ptr(raised);
    const Unlocked unlocked;
    detail::abandon(group, reason);
    throw raised;
  }
}

/// Carries out a call that has learned how long its output is.
Sized finish(detail::Request request, nb::handle like, const Counts& counts, bool has_output, const Trailing& trailing, const CallOptions& options,
             const std::optional<void*>& stream) {
  Sized result{.out = nb::none(), .counts = counts};
  std::optional<Buffer> to;
  if (has_output) {
    result.out = sized(like, request.in, counts.total(), trailing.group);
    to.emplace(result.out, Use::fill, "");
    request.out = to->view();
  }
  Trailing rest = trailing;
  rest.options = options;
  if (to) carry_out(request, rest, *to, stream);
  else carry_out(request, rest, stream);
  return result;
}

detail::Request labelled(Operation operation, const TensorView& in, const char* label) {
  detail::Request request = request_of(operation, in, detail::nothing(in.dtype()));
  request.label = label;
  return request;
}

nb::object all_gather_v(nb::handle x, nb::handle out, nb::handle counts, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_gather_v");
  const Buffer in(x, Use::read, "all_gather_v");
  if (counts.is_none() != out.is_none()) throw_invalid("all_gather_v", "the output and the counts are given together, or neither of them");
  if (!counts.is_none()) {
    const Buffer to(out, Use::write, "all_gather_v");
    detail::Request request = request_of(Operation::all_gather_v, in.view(), to.view());
    request.counts = counts_of(counts, "all_gather_v");
    carry_out(request, trailing, stream_of(in, to));
    return nb::borrow(out);
  }
  detail::Request request = labelled(Operation::all_gather_v, in.view(), "all_gather_v");
  CallOptions options = trailing.options;
  request.counts = exchange(request, trailing, options);
  const Sized result = finish(request, x, request.counts, true, trailing, options, in.stream());
  return nb::make_tuple(result.out, list_of(result.counts));
}

nb::object gather_v(nb::handle x, nb::handle out, nb::handle counts, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "gather_v");
  const Rank root = rank_of(dst, "gather_v");
  const Buffer in(x, Use::read, "gather_v");
  if (!counts.is_none()) {
    detail::Request request = request_of(Operation::gather_v, in.view(), detail::nothing(in.view().dtype()));
    request.counts = counts_of(counts, "gather_v");
    request.root = root;
    const bool has_output = is_here(root, trailing.group);
    nb::object to_object = nb::borrow(out);
    if (out.is_none() && has_output) to_object = empty_like(x, in.view(), {static_cast<std::int64_t>(request.counts.total())});
    std::optional<Buffer> to;
    const Use use = !has_output ? Use::read : out.is_none() ? Use::fill : Use::write;
    if (!to_object.is_none()) request.out = to.emplace(to_object, use, "gather_v").view();
    if (to) carry_out(request, trailing, *to, in.stream());
    else carry_out(request, trailing, in.stream());
    return has_output ? to_object : nb::none();
  }
  if (!out.is_none()) throw_invalid("gather_v", "the output is given without the counts");
  detail::Request request = labelled(Operation::gather_v, in.view(), "gather_v");
  request.root = root;
  CallOptions options = trailing.options;
  request.counts = exchange(request, trailing, options);
  const Sized result = finish(request, x, request.counts, is_here(root, trailing.group), trailing, options, in.stream());
  return nb::make_tuple(result.out, list_of(result.counts));
}

nb::object scatter_v(nb::handle x, nb::handle counts, nb::handle out, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "scatter_v");
  const Buffer to(out, Use::write, "scatter_v");
  std::optional<Buffer> in;
  detail::Request request = request_of(Operation::scatter_v, detail::nothing(to.view().dtype()), to.view());
  if (!x.is_none()) request.in = in.emplace(x, Use::read, "scatter_v").view();
  request.counts = counts_of(counts, "scatter_v");
  request.root = rank_of(src, "scatter_v");
  carry_out(request, trailing, to.stream());
  return nb::borrow(out);
}

nb::object reduce_scatter_v(nb::handle x, nb::handle counts, nb::handle out, nb::handle op, nb::handle group, nb::handle timeout, int tag,
                            bool deterministic) {
  const Trailing trailing(group, timeout, tag, "reduce_scatter_v", deterministic);
  const Buffer in(x, Use::read, "reduce_scatter_v"), to(out, Use::write, "reduce_scatter_v");
  detail::Request request = request_of(Operation::reduce_scatter_v, in.view(), to.view(), combination_of(op, to.view().dtype(), "reduce_scatter_v"));
  request.counts = counts_of(counts, "reduce_scatter_v");
  carry_out(request, trailing, stream_of(in, to));
  return nb::borrow(out);
}

nb::object all_to_all_v(nb::handle x, nb::handle send_counts, nb::handle out, nb::handle recv_counts, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_to_all_v");
  const Buffer in(x, Use::read, "all_to_all_v");
  if (recv_counts.is_none() != out.is_none()) {
    throw_invalid("all_to_all_v", "the output and the receive counts are given together, or neither of them");
  }
  if (!out.is_none()) {
    const Buffer to(out, Use::write, "all_to_all_v");
    detail::Request request = request_of(Operation::all_to_all_v, in.view(), to.view());
    request.counts = counts_of(send_counts, "all_to_all_v");
    request.recv_counts = counts_of(recv_counts, "all_to_all_v");
    carry_out(request, trailing, stream_of(in, to));
    return nb::borrow(out);
  }
  detail::Request request = labelled(Operation::all_to_all_v, in.view(), "all_to_all_v");
  request.counts = counts_of(send_counts, "all_to_all_v");
  CallOptions options = trailing.options;
  request.recv_counts = exchange(request, trailing, options);
  const Sized result = finish(request, x, request.recv_counts, true, trailing, options, in.stream());
  return nb::make_tuple(result.out, list_of(result.counts));
}

/// The same where both sides are known, at once.
template <class Fill>
nb::object start_counted(Operation operation, const char* name, nb::handle x, nb::handle out, const Trailing& trailing, const Fill& fill,
                         nb::object result) {
  Memory memory{.result = std::move(result)};
  std::optional<TensorView> in, to;
  if (!x.is_none()) in = memory.buffers.emplace_back(x, Use::read, name).view();
  if (!out.is_none()) to = memory.buffers.emplace_back(out, Use::write, name).view();
  const DType dtype = in ? in->dtype() : to ? to->dtype() : DType::uint8;
  detail::Request request = request_of(operation, in.value_or(detail::nothing(dtype)), to.value_or(detail::nothing(dtype)));
  fill(request);
  return start(request, trailing, std::move(memory));
}

nb::object all_gather_v_async(nb::handle x, nb::handle out, nb::handle counts, nb::handle group, nb::handle timeout, int tag) {
  return start_counted(
      Operation::all_gather_v, "all_gather_v", x, out, Trailing(group, timeout, tag, "all_gather_v"),
      [&](detail::Request& request) { request.counts = counts_of(counts, "all_gather_v"); }, nb::borrow(out));
}
nb::object gather_v_async(nb::handle x, nb::handle out, nb::handle counts, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  return start_counted(
      Operation::gather_v, "gather_v", x, out, Trailing(group, timeout, tag, "gather_v"),
      [&](detail::Request& request) {
        request.counts = counts_of(counts, "gather_v");
        request.root = rank_of(dst, "gather_v");
      },
      nb::borrow(out));
}
nb::object scatter_v_async(nb::handle x, nb::handle counts, nb::handle out, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  return start_counted(
      Operation::scatter_v, "scatter_v", x, out, Trailing(group, timeout, tag, "scatter_v"),
      [&](detail::Request& request) {
        request.counts = counts_of(counts, "scatter_v");
        request.root = rank_of(src, "scatter_v");
      },
      nb::borrow(out));
}
nb::object reduce_scatter_v_async(nb::handle x, nb::handle counts, nb::handle out, nb::handle op, nb::handle group, nb::handle timeout, int tag,
                                  bool deterministic) {
  return start_counted(
      Operation::reduce_scatter_v, "reduce_scatter_v", x, out, Trailing(group, timeout, tag, "reduce_scatter_v", deterministic),
      [&](detail::Request& request) {
        Combination combination = combination_of(op, request.out.dtype(), "reduce_scatter_v");
        request.op = combination.op;
        request.custom = std::move(combination.custom);
        request.factor = combination.factor;
        request.counts = counts_of(counts, "reduce_scatter_v");
      },
      nb::borrow(out));
}
nb::object all_to_all_v_async(nb::handle x, nb::handle send_counts, nb::handle out, nb::handle recv_counts, nb::handle group, nb::handle timeout,
                              int tag) {
  return start_counted(
      Operation::all_to_all_v, "all_to_all_v", x, out, Trailing(group, timeout, tag, "all_to_all_v"),
      [&](detail::Request& request) {
        request.counts = counts_of(send_counts, "all_to_all_v");
        request.recv_counts = counts_of(recv_counts, "all_to_all_v");
      },
      nb::borrow(out));
}

}  // namespace

#define UNISONO_TRAILING "group"_a = nb::none(), nb::kw_only(), "timeout"_a = nb::none(), "tag"_a = 0
#define UNISONO_TRAILING_TEXT "group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0"

void bind_counted(nb::module_& m) {
  m.def("all_gather_v", &all_gather_v, "x"_a.none(), "out"_a = nb::none(), "counts"_a = nb::none(), UNISONO_TRAILING,
        nb::sig("def all_gather_v(x: Buffer, out: Buffer | None = None, counts: Counts | None = None, " UNISONO_TRAILING_TEXT ") -> typing.Any"),
        R"(The ranks' blocks, of different length, one behind the other on every rank.

x: counts[rank()] elements. Where every rank knows the counts (in elements, one for each rank, the same on all), `out` has as many as they sum up to
and is returned. Without them each rank knows the length of its own only: returns a new array of all elements, and the counts.

    rows, counts = unisono.all_gather_v(my_rows))");
  m.def("all_gather_v_async", &all_gather_v_async, "x"_a.none(), "out"_a.none(), "counts"_a, UNISONO_TRAILING,
        nb::sig("def all_gather_v_async(x: Buffer, out: Buffer, counts: Counts, " UNISONO_TRAILING_TEXT ") -> Work"),
        "all_gather_v with counts that returns at once.");
  m.def("gather_v", &gather_v, "x"_a.none(), "out"_a = nb::none(), "counts"_a = nb::none(), "dst"_a = 0, UNISONO_TRAILING,
        nb::sig("def gather_v(x: Buffer, out: Buffer | None = None, counts: Counts | None = None, dst: RankLike = 0, " UNISONO_TRAILING_TEXT
                ") -> typing.Any"),
        R"(all_gather_v whose result is at rank `dst` only; elsewhere it is None. Without counts: a pair of it and the counts, which all ranks get.

    rows, counts = unisono.gather_v(my_rows)       # rows is None off rank 0)");
  m.def("gather_v_async", &gather_v_async, "x"_a.none(), "out"_a.none(), "counts"_a, "dst"_a = 0, UNISONO_TRAILING,
        nb::sig("def gather_v_async(x: Buffer, out: Buffer | None, counts: Counts, dst: RankLike = 0, " UNISONO_TRAILING_TEXT ") -> Work"),
        "gather_v with counts that returns at once.");
  m.def("scatter_v", &scatter_v, "x"_a.none(), "counts"_a, "out"_a.none(), "src"_a = 0, UNISONO_TRAILING,
        nb::sig("def scatter_v(x: Buffer | None, counts: Counts, out: X, src: RankLike = 0, " UNISONO_TRAILING_TEXT ") -> X"),
        R"(Rank r gets counts[r] elements of `x` of rank `src`, where the blocks lie one behind the other, in `out`, which is returned.

    unisono.scatter_v(table, [3, 5], numpy.empty(3 if unisono.rank() == 0 else 5)))");
  m.def("scatter_v_async", &scatter_v_async, "x"_a.none(), "counts"_a, "out"_a.none(), "src"_a = 0, UNISONO_TRAILING,
        nb::sig("def scatter_v_async(x: Buffer | None, counts: Counts, out: Buffer, src: RankLike = 0, " UNISONO_TRAILING_TEXT ") -> Work"),
        "scatter_v that returns at once.");
  m.def(
      "reduce_scatter_v", &reduce_scatter_v, "x"_a.none(), "counts"_a, "out"_a.none(), "op"_a = sum_op(), UNISONO_TRAILING, "deterministic"_a = false,
      nb::sig("def reduce_scatter_v(x: Buffer, counts: Counts, out: X, op: Op = 'sum', " UNISONO_TRAILING_TEXT ", deterministic: bool = False) -> X"),
      "Rank r gets the combination of all ranks' block r, of counts[r] elements, in `out`, which is returned.");
  m.def("reduce_scatter_v_async", &reduce_scatter_v_async, "x"_a.none(), "counts"_a, "out"_a.none(), "op"_a = sum_op(), UNISONO_TRAILING,
        "deterministic"_a = false,
        nb::sig("def reduce_scatter_v_async(x: Buffer, counts: Counts, out: Buffer, op: Op = 'sum', " UNISONO_TRAILING_TEXT
                ", deterministic: bool = False) -> Work"),
        "reduce_scatter_v that returns at once.");
  m.def(
      "all_to_all_v", &all_to_all_v, "x"_a.none(), "send_counts"_a, "out"_a = nb::none(), "recv_counts"_a = nb::none(), UNISONO_TRAILING,
      nb::sig("def all_to_all_v(x: Buffer, send_counts: Counts, out: Buffer | None = None, recv_counts: Counts | None = None, " UNISONO_TRAILING_TEXT
              ") -> typing.Any"),
      R"(send_counts[r] elements of `x` go to rank r; recv_counts[r] elements of `out` come from it. They must fit together. Returns `out`.

Without `out` and `recv_counts` only the sender knows how much it sends: returns a new array of what has come, and the counts.

    received, counts = unisono.all_to_all_v(to_send, [2, 0, 1]))");
  m.def("all_to_all_v_async", &all_to_all_v_async, "x"_a.none(), "send_counts"_a, "out"_a.none(), "recv_counts"_a, UNISONO_TRAILING,
        nb::sig("def all_to_all_v_async(x: Buffer, send_counts: Counts, out: Buffer, recv_counts: Counts, " UNISONO_TRAILING_TEXT ") -> Work"),
        "all_to_all_v with both counts that returns at once.");
}

}  // namespace unisono::python
