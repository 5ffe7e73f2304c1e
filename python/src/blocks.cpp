// all_gather, gather, scatter, reduce_scatter and all_to_all: blocks of one length, one for each rank.

#include <string>

#include "calls.h"
#include "failure.h"
#include "module.h"
#include "objects.h"
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

nb::object gather_values(const char* name, Operation operation, nb::handle x, std::optional<Rank> dst, const Trailing& trailing) {
  if (!Value::is_value(x)) return gather_all(name, x, dst, trailing);
  Value own(x, name);
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

/// The request of all_gather and gather, its memory, and what it returns. `out`: a buffer, a list of buffers, or None for a new array.
detail::Request gathering(const char* name, Operation operation, nb::handle x, nb::handle out, std::optional<Rank> dst, const Trailing& trailing,
                          Memory& memory) {
  const bool has_result = !dst || is_here(*dst, trailing.group);
  memory.buffers.emplace_back(x, Use::read, name);
  const TensorView in = memory.buffers.front().view();
  if (PyList_Check(out.ptr()) || PyTuple_Check(out.ptr())) {
    std::vector<TensorView> views;
    for (const nb::handle each : out) {
      memory.buffers.emplace_back(each, Use::write, name);
      views.push_back(memory.buffers.back().view());
    }
    if (has_result) memory.result = nb::borrow(out);
    return dst ? detail::gather_request(in, std::move(views), *dst, trailing.group, trailing.options)
               : detail::all_gather_request(in, std::move(views), trailing.group, trailing.options);
  }
  nb::object to = nb::borrow(out);
  if (out.is_none() && has_result) to = empty_like(x, in, stacked(in, size_of_group(trailing.group)));
  detail::Request request = request_of(operation, in, detail::nothing(in.dtype()));
  if (!to.is_none()) {
    memory.buffers.emplace_back(to, !has_result ? Use::read : out.is_none() ? Use::fill : Use::write, name);
    request.out = memory.buffers.back().view();
  }
  request.root = dst;
  if (has_result) memory.result = std::move(to);
  return request;
}

nb::object finished(const detail::Request& request, const Trailing& trailing, const Memory& memory) {
  std::optional<void*> stream;
  for (const Buffer& buffer : memory.buffers) {
    if (buffer.stream()) stream = buffer.stream();
  }
  if (memory.buffers.empty()) carry_out(request, trailing, stream);
  else carry_out(request, trailing, memory.buffers.back(), stream);  // the output is the last one, where it is a new array
  return memory.result;
}

nb::object all_gather(nb::handle x, nb::handle out, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_gather");
  if (out.is_none() && !is_buffer(x)) return gather_values("all_gather", Operation::all_gather, x, std::nullopt, trailing);
  Memory memory;
  return finished(gathering("all_gather", Operation::all_gather, x, out, std::nullopt, trailing, memory), trailing, memory);
}
nb::object all_gather_async(nb::handle x, nb::handle out, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_gather");
  Memory memory;
  const detail::Request request = gathering("all_gather", Operation::all_gather, x, out, std::nullopt, trailing, memory);
  return start(request, trailing, std::move(memory));
}
nb::object gather(nb::handle x, nb::handle out, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "gather");
  const Rank root = rank_of(dst, "gather");
  if (out.is_none() && !is_buffer(x)) return gather_values("gather", Operation::gather, x, root, trailing);
  Memory memory;
  return finished(gathering("gather", Operation::gather, x, out, root, trailing, memory), trailing, memory);
}
nb::object gather_async(nb::handle x, nb::handle out, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "gather");
  Memory memory;
  const detail::Request request = gathering("gather", Operation::gather, x, out, rank_of(dst, "gather"), trailing, memory);
  return start(request, trailing, std::move(memory));
}

detail::Request scattering(nb::handle x, nb::handle out, nb::handle src, const Trailing& trailing, Memory& memory) {
  const Rank root = rank_of(src, "scatter");
  memory.buffers.emplace_back(out, Use::write, "scatter");
  const TensorView to = memory.buffers.front().view();
  memory.result = nb::borrow(out);
  if (PyList_Check(x.ptr()) || PyTuple_Check(x.ptr())) {
    std::vector<TensorView> views;
    for (const nb::handle each : x) {
      memory.buffers.emplace_back(each, Use::read, "scatter");
      views.push_back(memory.buffers.back().view());
    }
    return detail::scatter_request(std::move(views), to, root, trailing.group, trailing.options);
  }
  detail::Request request = request_of(Operation::scatter, detail::nothing(to.dtype()), to);
  if (!x.is_none()) {
    memory.buffers.emplace_back(x, Use::read, "scatter");
    request.in = memory.buffers.back().view();
  }
  request.root = root;
  return request;
}
nb::object scatter(nb::handle x, nb::handle out, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "scatter");
  Memory memory;
  return finished(scattering(x, out, src, trailing, memory), trailing, memory);
}
nb::object scatter_async(nb::handle x, nb::handle out, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "scatter");
  Memory memory;
  const detail::Request request = scattering(x, out, src, trailing, memory);
  return start(request, trailing, std::move(memory));
}

/// all_to_all, and with `op` reduce_scatter.
detail::Request exchanging(Operation operation, const char* name, nb::handle x, nb::handle out, nb::handle op, const Trailing& trailing,
                           Memory& memory) {
  memory.buffers.emplace_back(x, Use::read, name);
  const TensorView in = memory.buffers.front().view();
  memory.result = nb::borrow(out);
  if (out.is_none()) {
    const bool keeps_shape = operation == Operation::all_to_all;
    memory.result = empty_like(x, in, keeps_shape ? shape_of(in) : shared_out(in, size_of_group(trailing.group), name));
  }
  memory.buffers.emplace_back(memory.result, out.is_none() ? Use::fill : Use::write, name);
  const TensorView to = memory.buffers.back().view();
  return operation == Operation::all_to_all ? request_of(operation, in, to) : request_of(operation, in, to, combination_of(op, to.dtype(), name));
}
nb::object reduce_scatter(nb::handle x, nb::handle out, nb::handle op, nb::handle group, nb::handle timeout, int tag, bool deterministic) {
  const Trailing trailing(group, timeout, tag, "reduce_scatter", deterministic);
  Memory memory;
  return finished(exchanging(Operation::reduce_scatter, "reduce_scatter", x, out, op, trailing, memory), trailing, memory);
}
nb::object reduce_scatter_async(nb::handle x, nb::handle out, nb::handle op, nb::handle group, nb::handle timeout, int tag, bool deterministic) {
  const Trailing trailing(group, timeout, tag, "reduce_scatter", deterministic);
  Memory memory;
  const detail::Request request = exchanging(Operation::reduce_scatter, "reduce_scatter", x, out, op, trailing, memory);
  return start(request, trailing, std::move(memory));
}
nb::object all_to_all(nb::handle x, nb::handle out, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_to_all");
  Memory memory;
  return finished(exchanging(Operation::all_to_all, "all_to_all", x, out, nb::none(), trailing, memory), trailing, memory);
}
nb::object all_to_all_async(nb::handle x, nb::handle out, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_to_all");
  Memory memory;
  const detail::Request request = exchanging(Operation::all_to_all, "all_to_all", x, out, nb::none(), trailing, memory);
  return start(request, trailing, std::move(memory));
}

}  // namespace

#define UNISONO_TRAILING "group"_a = nb::none(), nb::kw_only(), "timeout"_a = nb::none(), "tag"_a = 0
#define UNISONO_TRAILING_TEXT "group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0"

void bind_blocks(nb::module_& m) {
  m.def("all_gather", &all_gather, "x"_a.none(), "out"_a = nb::none(), UNISONO_TRAILING,
        nb::sig("def all_gather(x: typing.Any, out: Buffer | list[Buffer] | None = None, " UNISONO_TRAILING_TEXT ") -> typing.Any"),
        R"(The blocks of all ranks, on every rank, in group order.

x: a buffer of the same length and dtype on every rank. The result is `out`: a buffer of size() blocks, or a list of size() buffers; without one a new
   array whose first axis is the ranks. Or a number or any other object: the result is a list, element r from rank r.

    everyone = unisono.all_gather(numpy.arange(3.0))     # shape (size, 3)
    names = unisono.all_gather("some text")              # a list of texts)");
  m.def("all_gather_async", &all_gather_async, "x"_a.none(), "out"_a = nb::none(), UNISONO_TRAILING,
        nb::sig("def all_gather_async(x: Buffer, out: Buffer | list[Buffer] | None = None, " UNISONO_TRAILING_TEXT ") -> Work"),
        "all_gather of buffers that returns at once; work.result() is the output.");
  m.def("gather", &gather, "x"_a.none(), "out"_a = nb::none(), "dst"_a = 0, UNISONO_TRAILING,
        nb::sig("def gather(x: typing.Any, out: Buffer | list[Buffer] | None = None, dst: RankLike = 0, " UNISONO_TRAILING_TEXT ") -> typing.Any"),
        R"(all_gather whose result is at rank `dst` only. Elsewhere `out` stays as it is and may be left out, and None is returned.

    losses = unisono.gather(loss)          # a list at rank 0)");
  m.def("gather_async", &gather_async, "x"_a.none(), "out"_a = nb::none(), "dst"_a = 0, UNISONO_TRAILING,
        nb::sig("def gather_async(x: Buffer, out: Buffer | list[Buffer] | None = None, dst: RankLike = 0, " UNISONO_TRAILING_TEXT ") -> Work"),
        "gather of buffers that returns at once.");
  m.def("scatter", &scatter, "x"_a.none(), "out"_a.none(), "src"_a = 0, UNISONO_TRAILING,
        nb::sig("def scatter(x: Buffer | list[Buffer] | None, out: X, src: RankLike = 0, " UNISONO_TRAILING_TEXT ") -> X"),
        R"(Rank r gets block r of `x` of rank `src`, in `out`, which is returned.

x: at `src` a buffer of size() blocks of the length of `out`, or a list of size() buffers; elsewhere it does not count and may be None.

    part = unisono.scatter(table if unisono.rank() == 0 else None, numpy.empty(100)))");
  m.def("scatter_async", &scatter_async, "x"_a.none(), "out"_a.none(), "src"_a = 0, UNISONO_TRAILING,
        nb::sig("def scatter_async(x: Buffer | list[Buffer] | None, out: Buffer, src: RankLike = 0, " UNISONO_TRAILING_TEXT ") -> Work"),
        "scatter that returns at once.");
  m.def("reduce_scatter", &reduce_scatter, "x"_a.none(), "out"_a = nb::none(), "op"_a = sum_op(), UNISONO_TRAILING, "deterministic"_a = false,
        nb::sig("def reduce_scatter(x: Buffer, out: Buffer | None = None, op: Op = 'sum', " UNISONO_TRAILING_TEXT
                ", deterministic: bool = False) -> typing.Any"),
        R"(Rank r gets the combination of all ranks' block r.

x: size() blocks. The result is `out`, of one block; without it a new array, whose first axis is that of `x` divided by size().

    mine = unisono.reduce_scatter(gradients))");
  m.def("reduce_scatter_async", &reduce_scatter_async, "x"_a.none(), "out"_a = nb::none(), "op"_a = sum_op(), UNISONO_TRAILING,
        "deterministic"_a = false,
        nb::sig("def reduce_scatter_async(x: Buffer, out: Buffer | None = None, op: Op = 'sum', " UNISONO_TRAILING_TEXT
                ", deterministic: bool = False) -> Work"),
        "reduce_scatter that returns at once; work.result() is the output.");
  m.def("all_to_all", &all_to_all, "x"_a.none(), "out"_a = nb::none(), UNISONO_TRAILING,
        nb::sig("def all_to_all(x: Buffer, out: Buffer | None = None, " UNISONO_TRAILING_TEXT ") -> typing.Any"),
        R"(Block r of `x` goes to rank r; block r of the result comes from it.

x: size() blocks. The result is `out`, of the same length, which does not overlap `x`; without it a new array of the shape of `x`.

    received = unisono.all_to_all(to_send))");
  m.def("all_to_all_async", &all_to_all_async, "x"_a.none(), "out"_a = nb::none(), UNISONO_TRAILING,
        nb::sig("def all_to_all_async(x: Buffer, out: Buffer | None = None, " UNISONO_TRAILING_TEXT ") -> Work"),
        "all_to_all that returns at once; work.result() is the output.");
}

}  // namespace unisono::python
