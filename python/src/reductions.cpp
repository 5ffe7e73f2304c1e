// all_reduce, reduce, broadcast, scan, exscan and mean: a buffer is worked on in place, a number is returned.

#include <nanobind/stl/string.h>

#include <cstring>
#include <string>

#include "calls.h"
#include "docs/reductions.h"
#include "failure.h"
#include "imports.h"
#include "module.h"
#include "values.h"

namespace unisono::python {

bool is_returned(nb::handle x) { return !is_ndarray(x) && !is_torch_tensor(x) && is_immutable(x); }

namespace {

using namespace nb::literals;

detail::Request request_on(Operation operation, const TensorView& in, const TensorView& out, nb::handle op, std::optional<Rank> root) {
  detail::Request request = request_of(operation, in, out);
  if (reduces(operation)) combination_of(op, out.dtype(), name_of(operation)).apply(request);
  request.root = root;
  return request;
}

/// Without a root every rank gets the result.
bool gets_result(Operation operation, std::optional<Rank> root, const ProcessGroup& group) {
  return takes_part(traits_of(operation).receivers, root && is_here(*root, group));
}

/// A root whose elements alone count and the ranks that get no result read their buffers alone.
Use use_of(Operation operation, std::optional<Rank> root, const ProcessGroup& group) {
  const bool is_read_only = (traits_of(operation).senders == Participants::root && is_here(*root, group)) || !gets_result(operation, root, group);
  return is_read_only ? Use::read : Use::write;
}

nb::object on_value(Operation operation, nb::handle x, nb::handle op, std::optional<Rank> root, const Trailing& trailing) {
  Value value(x, name_of(operation));
  const detail::Request request = request_on(operation, value.view(), value.view(), op, root);
  if (reduces(operation) && !request.custom && !request.factor) {
    value.check_result_fits(request.op, size_of_group(trailing.group), name_of(operation));
  }
  carry_out(request, trailing);
  return gets_result(operation, root, trailing.group) ? value.object() : nb::none();
}

/// Returns a copy for the result, of the same library and on the same device: nobody else has it yet.
nb::object copy_of(nb::handle x, const char* name) {
  if (is_jax(x)) return imported("jax.numpy").attr("array")(x, "copy"_a = true).attr("block_until_ready")();
  const Buffer in(x, Use::read, name);
  nb::object out = empty_like(x, in.view(), {in.view().shape().begin(), in.view().shape().end()});
  imported("numpy").attr("copyto")(out, imported("numpy").attr("asarray")(x));
  return out;
}

nb::object run_in_place(Operation operation, nb::handle x, nb::handle op, std::optional<Rank> root, const Trailing& trailing) {
  if (!is_ndarray(x)) {
    if (Value::is_value(x)) return on_value(operation, x, op, root, trailing);
    if (is_placed(x)) return reduce_pairs(operation, x, op, root, trailing);
    if (is_returned(x)) {
      const nb::object out = copy_of(x, name_of(operation));
      const Buffer to(out, Use::fill, name_of(operation));
      carry_out(request_on(operation, to.view(), to.view(), op, root), trailing, to.stream(), &to);
      return gets_result(operation, root, trailing.group) ? out : nb::none();
    }
  }
  const Buffer buffer(x, use_of(operation, root, trailing.group), name_of(operation));
  carry_out(request_on(operation, buffer.view(), buffer.view(), op, root), trailing, buffer.stream());
  return gets_result(operation, root, trailing.group) ? nb::borrow(x) : nb::none();
}

nb::object start_in_place(Operation operation, nb::handle x, nb::handle op, std::optional<Rank> root, const Trailing& trailing) {
  if (is_placed(x)) return start_pairs(operation, x, op, trailing);
  Memory memory{.result = gets_result(operation, root, trailing.group) ? nb::borrow(x) : nb::none()};
  const TensorView view = memory.add(x, use_of(operation, root, trailing.group), name_of(operation));
  return start(request_on(operation, view, view, op, root), trailing, std::move(memory));
}

template <bool IsAsync>
nb::object in_place(Operation operation, nb::handle x, nb::handle op, std::optional<Rank> root, const Trailing& trailing) {
  return IsAsync ? start_in_place(operation, x, op, root, trailing) : run_in_place(operation, x, op, root, trailing);
}

template <bool IsAsync>
nb::object all_reduce(nb::handle x, nb::handle op, nb::handle group, nb::handle out, nb::handle timeout, int tag, bool deterministic) {
  const Trailing trailing(group, timeout, tag, "all_reduce", deterministic);
  if (out.is_none()) [[likely]]
    return in_place<IsAsync>(Operation::all_reduce, x, op, std::nullopt, trailing);
  if constexpr (IsAsync) {
    Memory memory{.result = nb::borrow(out)};
    const TensorView from = memory.add(x, Use::read, "all_reduce"), to = memory.add(out, Use::write, "all_reduce");
    return start(request_on(Operation::all_reduce, from, to, op, std::nullopt), trailing, std::move(memory));
  }
  const Buffer from(x, Use::read, "all_reduce"), to(out, Use::write, "all_reduce");
  carry_out(request_on(Operation::all_reduce, from.view(), to.view(), op, std::nullopt), trailing, from.stream() ? from.stream() : to.stream());
  return nb::borrow(out);
}

template <bool IsAsync>
nb::object reduce(nb::handle x, nb::handle dst, nb::handle op, nb::handle group, nb::handle timeout, int tag, bool deterministic) {
  return in_place<IsAsync>(Operation::reduce, x, op, rank_of(dst, "reduce"), Trailing(group, timeout, tag, "reduce", deterministic));
}

template <bool IsAsync>
nb::object broadcast(nb::handle x, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "broadcast");
  const Rank root = rank_of(src, "broadcast");
  if (!IsAsync && !is_buffer(x) && !Value::is_value(x)) return broadcast_one("broadcast", x, root, trailing);
  return in_place<IsAsync>(Operation::broadcast, x, nb::none(), root, trailing);
}

template <Operation Prefix, bool IsAsync>
nb::object prefix(nb::handle x, nb::handle op, nb::handle group, nb::handle timeout, int tag, bool deterministic) {
  return in_place<IsAsync>(Prefix, x, op, std::nullopt, Trailing(group, timeout, tag, name_of(Prefix), deterministic));
}

// fractions.Fraction: integers of any size are added exactly, and rounded once.
double mean(nb::handle x, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_gather");
  Value own(x, "mean");
  const DType dtype = own.dtype();
  if (dtype == DType::boolean || dtype == DType::complex64 || dtype == DType::complex128) {
    throw_invalid("mean", "the average of " + std::string(to_string(dtype)) + " is none of ours", "all_reduce(x, \"avg\") averages complex numbers");
  }
  const std::size_t n = size_of_group(trailing.group), width = size_of(dtype);
  std::vector<std::byte> all(n * width);
  carry_out(request_of(Operation::all_gather, own.view(), TensorView(all.data(), dtype, n)), trailing);
  nb::list numbers;
  for (std::size_t r = 0; r < n; ++r) numbers.append(own.object_from(all.data() + r * width));
  return nb::cast<double>(imported("unisono._errors").attr("exact_mean")(numbers));
}

void bind_all_reduce(nb::module_& m) {
  const auto def = [&](const std::string& signature, auto f, const std::string& doc, const auto&... choice) {
    m.def("all_reduce", f, "x"_a.none(), "op"_a = sum_op(), "group"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(), "timeout"_a = nb::none(),
          "tag"_a = 0, "deterministic"_a = false, choice..., nb::sig(signature.c_str()), doc.c_str());
  };
  const std::string trailing =
      ", op: Op = 'sum', group: ProcessGroup | None = None, *, out: Buffer | None = None, timeout: Seconds = None, tag: int = 0, "
      "deterministic: bool = False";
  const auto call = [](nb::handle x, nb::handle op, nb::handle group, nb::handle out, nb::handle timeout, int tag, bool deterministic,
                       bool async_op) {
    return async_op ? all_reduce<true>(x, op, group, out, timeout, tag, deterministic)
                    : all_reduce<false>(x, op, group, out, timeout, tag, deterministic);
  };
  def("@typing.overload\ndef all_reduce(x: Buffer" + trailing +
          ", async_op: typing.Literal[True]) -> Work: ...\n@typing.overload\ndef all_reduce(x: X" + trailing +
          ", async_op: typing.Literal[False] = False) -> X",
      call, docstring_with_choice(docs::all_reduce), "async_op"_a = false);
  def("def all_reduce_async(x: Buffer" + trailing + ") -> Work", &all_reduce<true>,
      async_docstring("all_reduce", docs::all_reduce, docs::all_reduce_async));
}

}  // namespace

void bind_reductions(nb::module_& m) {
  bind_all_reduce(m);
  def_both(m, "reduce", &reduce<false>, &reduce<true>, "x: X, dst: RankLike, op: Op = 'sum'", "x: Buffer, dst: RankLike, op: Op = 'sum'", "X | None",
           docs::reduce, docs::reduce_async, "x"_a.none(), "dst"_a, "op"_a = sum_op());
  def_both(m, "broadcast", &broadcast<false>, &broadcast<true>, "x: X, src: RankLike = 0", "x: Buffer, src: RankLike = 0", "X", docs::broadcast,
           docs::broadcast_async, "x"_a.none(), "src"_a = 0);
  def_both(m, "scan", &prefix<Operation::scan, false>, &prefix<Operation::scan, true>, "x: X, op: Op = 'sum'", "x: Buffer, op: Op = 'sum'", "X",
           docs::scan, docs::scan_async, "x"_a.none(), "op"_a = sum_op());
  def_both(m, "exscan", &prefix<Operation::exscan, false>, &prefix<Operation::exscan, true>, "x: X, op: Op = 'sum'", "x: Buffer, op: Op = 'sum'", "X",
           docs::exscan, docs::exscan_async, "x"_a.none(), "op"_a = sum_op());
  def_call(m, "mean", &mean, "x: float", "float", docs::mean, "x"_a.none());
}

}  // namespace unisono::python
