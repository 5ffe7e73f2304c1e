// all_gather, gather, scatter, reduce_scatter and all_to_all: blocks of one length, one for each rank.

#include <string>

#include "calls.h"
#include "docs/blocks.h"
#include "failure.h"
#include "module.h"
#include "unisono/collectives_lists.h"
#include "values.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

std::vector<std::int64_t> shape_of(const TensorView& view) { return {view.shape().begin(), view.shape().end()}; }
/// The ranks' blocks on a new first axis.
std::vector<std::int64_t> stacked(const TensorView& block, std::size_t ranks) {
  std::vector<std::int64_t> shape = shape_of(block);
  shape.insert(shape.begin(), static_cast<std::int64_t>(ranks));
  return shape;
}
/// One rank's block: the first axis is as many times as long as there are ranks.
std::vector<std::int64_t> shared_out(const TensorView& whole, std::size_t ranks, const char* operation) {
  std::vector<std::int64_t> shape = shape_of(whole);
  if (shape.empty() || shape[0] % static_cast<std::int64_t>(ranks) != 0) {
    throw_invalid(
        operation,
        "the first axis has " + std::to_string(shape.empty() ? 1 : shape[0]) + " rows, which " + std::to_string(ranks) + " ranks cannot share evenly",
        "reduce_scatter_v and scatter_v take a count for each rank");
  }
  shape[0] /= static_cast<std::int64_t>(ranks);
  return shape;
}

bool is_list(nb::handle x) { return PyList_Check(x.ptr()) || PyTuple_Check(x.ptr()); }

std::vector<TensorView> add_each(Memory& memory, nb::handle list, Use use, const char* operation) {
  std::vector<TensorView> views;
  for (const nb::handle each : list) views.push_back(memory.add(each, use, operation));
  return views;
}

nb::object gather_values(Operation operation, nb::handle x, std::optional<Rank> dst, const Trailing& trailing) {
  if (!Value::is_value(x)) return gather_all(name_of(operation), x, dst, trailing);
  Value own(x, name_of(operation));
  const std::size_t n = size_of_group(trailing.group), width = size_of(own.dtype());
  std::vector<std::byte> all(n * width);
  detail::Request request = request_of(operation, own.view(), TensorView(all.data(), own.dtype(), n));
  request.root = dst;
  carry_out(request, trailing);
  if (dst && !is_here(*dst, trailing.group)) return nb::none();
  nb::list numbers;
  for (std::size_t r = 0; r < n; ++r) numbers.append(own.object_from(all.data() + r * width));
  return numbers;
}

/// all_gather, and with `dst` gather. `out`: a buffer, a list of buffers, or None for a new array.
template <bool IsAsync>
nb::object gathering(Operation operation, nb::handle x, nb::handle out, std::optional<Rank> dst, const Trailing& trailing) {
  if (!IsAsync && out.is_none() && !is_buffer(x)) return gather_values(operation, x, dst, trailing);
  const char* const name = name_of(operation);
  const bool has_result = !dst || is_here(*dst, trailing.group);
  Memory memory;
  const TensorView in = memory.add(x, Use::read, name);
  if (is_list(out)) {
    std::vector<TensorView> views = add_each(memory, out, Use::write, name);
    if (has_result) memory.result = nb::borrow(out);
    return conclude<IsAsync>(dst ? detail::gather_request(in, std::move(views), *dst, trailing.group, trailing.options)
                                 : detail::all_gather_request(in, std::move(views), trailing.group, trailing.options),
                             trailing, std::move(memory));
  }
  nb::object to = nb::borrow(out);
  if (out.is_none() && has_result) to = empty_like(x, in, stacked(in, size_of_group(trailing.group)));
  detail::Request request = request_of(operation, in, detail::nothing(in.dtype()));
  if (!to.is_none()) request.out = memory.add(to, !has_result ? Use::read : out.is_none() ? Use::fill : Use::write, name);
  request.root = dst;
  if (has_result) memory.result = std::move(to);
  return conclude<IsAsync>(request, trailing, std::move(memory));
}

template <bool IsAsync>
nb::object all_gather(nb::handle x, nb::handle out, nb::handle group, nb::handle timeout, int tag) {
  return gathering<IsAsync>(Operation::all_gather, x, out, std::nullopt, Trailing(group, timeout, tag, "all_gather"));
}
template <bool IsAsync>
nb::object gather(nb::handle x, nb::handle out, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  return gathering<IsAsync>(Operation::gather, x, out, rank_of(dst, "gather"), Trailing(group, timeout, tag, "gather"));
}

template <bool IsAsync>
nb::object scatter(nb::handle x, nb::handle out, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "scatter");
  const Rank root = rank_of(src, "scatter");
  Memory memory{.result = nb::borrow(out)};
  const TensorView to = memory.add(out, Use::write, "scatter");
  if (is_list(x)) {
    std::vector<TensorView> views = add_each(memory, x, Use::read, "scatter");
    return conclude<IsAsync>(detail::scatter_request(std::move(views), to, root, trailing.group, trailing.options), trailing, std::move(memory));
  }
  detail::Request request = request_of(Operation::scatter, detail::nothing(to.dtype()), to);
  if (!x.is_none()) request.in = memory.add(x, Use::read, "scatter");
  request.root = root;
  return conclude<IsAsync>(request, trailing, std::move(memory));
}

/// all_to_all, and with `op` reduce_scatter.
template <bool IsAsync>
nb::object exchanging(Operation operation, nb::handle x, nb::handle out, nb::handle op, const Trailing& trailing) {
  const char* const name = name_of(operation);
  const bool reduces = traits_of(operation).reduces;
  Memory memory{.result = nb::borrow(out)};
  const TensorView in = memory.add(x, Use::read, name);
  if (out.is_none()) memory.result = empty_like(x, in, reduces ? shared_out(in, size_of_group(trailing.group), name) : shape_of(in));
  const TensorView to = memory.add(nb::object(memory.result), out.is_none() ? Use::fill : Use::write, name);
  const detail::Request request = reduces ? request_of(operation, in, to, combination_of(op, to.dtype(), name)) : request_of(operation, in, to);
  return conclude<IsAsync>(request, trailing, std::move(memory));
}
template <bool IsAsync>
nb::object reduce_scatter(nb::handle x, nb::handle out, nb::handle op, nb::handle group, nb::handle timeout, int tag, bool deterministic) {
  return exchanging<IsAsync>(Operation::reduce_scatter, x, out, op, Trailing(group, timeout, tag, "reduce_scatter", deterministic));
}
template <bool IsAsync>
nb::object all_to_all(nb::handle x, nb::handle out, nb::handle group, nb::handle timeout, int tag) {
  return exchanging<IsAsync>(Operation::all_to_all, x, out, nb::none(), Trailing(group, timeout, tag, "all_to_all"));
}

}  // namespace

void bind_blocks(nb::module_& m) {
  def_both(m, "all_gather", &all_gather<false>, &all_gather<true>, "x: typing.Any, out: Buffer | list[Buffer] | None = None",
           "x: Buffer, out: Buffer | list[Buffer] | None = None", "typing.Any", docs::all_gather, docs::all_gather_async, "x"_a.none(),
           "out"_a = nb::none());
  def_both(m, "gather", &gather<false>, &gather<true>, "x: typing.Any, out: Buffer | list[Buffer] | None = None, dst: RankLike = 0",
           "x: Buffer, out: Buffer | list[Buffer] | None = None, dst: RankLike = 0", "typing.Any", docs::gather, docs::gather_async, "x"_a.none(),
           "out"_a = nb::none(), "dst"_a = 0);
  def_both(m, "scatter", &scatter<false>, &scatter<true>, "x: Buffer | list[Buffer] | None, out: X, src: RankLike = 0",
           "x: Buffer | list[Buffer] | None, out: Buffer, src: RankLike = 0", "X", docs::scatter, docs::scatter_async, "x"_a.none(), "out"_a.none(),
           "src"_a = 0);
  constexpr const char* reduced = "x: Buffer, out: Buffer | None = None, op: Op = 'sum'";
  def_both(m, "reduce_scatter", &reduce_scatter<false>, &reduce_scatter<true>, reduced, reduced, "typing.Any", docs::reduce_scatter,
           docs::reduce_scatter_async, "x"_a.none(), "out"_a = nb::none(), "op"_a = sum_op());
  constexpr const char* exchanged = "x: Buffer, out: Buffer | None = None";
  def_both(m, "all_to_all", &all_to_all<false>, &all_to_all<true>, exchanged, exchanged, "typing.Any", docs::all_to_all, docs::all_to_all_async,
           "x"_a.none(), "out"_a = nb::none());
}

}  // namespace unisono::python
