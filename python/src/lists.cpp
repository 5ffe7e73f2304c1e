// Calls to which every process brings several buffers, as one that drives several devices does.

#include "calls.h"
#include "docs/lists.h"
#include "module.h"
#include "signals.h"
#include "unisono/cuda.h"
#include "unisono/multigpu.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// The buffers of a call, and their views: of one list, of which the call writes to all or to none but for the first one, or of outputs and inputs.
struct Lists {
  Memory memory;
  std::vector<TensorView> outputs = {}, inputs = {};

  Lists(nb::handle list, Use first, Use others, const char* operation) : memory{.result = nb::borrow(list)} {
    for (const nb::handle each : list) outputs.push_back(memory.add(each, outputs.empty() ? first : others, operation));
  }
  Lists(nb::handle to, nb::handle from, const char* operation) : Lists(to, Use::write, Use::write, operation) {
    for (const nb::handle each : from) inputs.push_back(memory.add(each, Use::read, operation));
  }
};

/// Makes the call without the interpreter lock: `call` returns nothing, or a Work.
template <class Call>
nb::object conclude(Lists lists, Call&& call) {
  if constexpr (std::is_void_v<decltype(call(lists))>) {
    unlocked([&] { call(lists); });
  } else {
    Work work = unlocked([&] { return call(lists); });
    return as_object(std::move(work), std::move(lists.memory));
  }
  return lists.memory.result;
}

template <bool IsAsync>
nb::object broadcast_multigpu(nb::handle tensors, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "broadcast_multigpu");
  const Rank root = rank_of(src, "broadcast_multigpu");
  const Use first = is_here(root, t.group) ? Use::read : Use::write;
  return conclude({tensors, first, Use::write, "broadcast_multigpu"}, [&](const Lists& lists) {
    if constexpr (IsAsync) return unisono::broadcast_multigpu_async(lists.outputs, root, t.group, t.options);
    else unisono::broadcast_multigpu(lists.outputs, root, t.group, t.options);
  });
}
template <bool IsAsync>
nb::object all_reduce_multigpu(nb::handle tensors, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "all_reduce_multigpu");
  const ReduceOp how = reduce_op_of(op, "all_reduce_multigpu");
  return conclude({tensors, Use::write, Use::write, "all_reduce_multigpu"}, [&](const Lists& lists) {
    if constexpr (IsAsync) return unisono::all_reduce_multigpu_async(lists.outputs, how, t.group, t.options);
    else unisono::all_reduce_multigpu(lists.outputs, how, t.group, t.options);
  });
}
template <bool IsAsync>
nb::object reduce_multigpu(nb::handle tensors, nb::handle dst, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "reduce_multigpu");
  const ReduceOp how = reduce_op_of(op, "reduce_multigpu");
  const Rank root = rank_of(dst, "reduce_multigpu");
  const Use first = is_here(root, t.group) ? Use::write : Use::read;
  return conclude({tensors, first, Use::read, "reduce_multigpu"}, [&](const Lists& lists) {
    if constexpr (IsAsync) return unisono::reduce_multigpu_async(lists.outputs, root, how, t.group, t.options);
    else unisono::reduce_multigpu(lists.outputs, root, how, t.group, t.options);
  });
}
template <bool IsAsync>
nb::object all_gather_multigpu(nb::handle outputs, nb::handle inputs, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "all_gather_multigpu");
  return conclude({outputs, inputs, "all_gather_multigpu"}, [&](const Lists& lists) {
    if constexpr (IsAsync) return unisono::all_gather_multigpu_async(lists.outputs, lists.inputs, t.group, t.options);
    else unisono::all_gather_multigpu(lists.outputs, lists.inputs, t.group, t.options);
  });
}
template <bool IsAsync>
nb::object reduce_scatter_multigpu(nb::handle outputs, nb::handle inputs, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "reduce_scatter_multigpu");
  const ReduceOp how = reduce_op_of(op, "reduce_scatter_multigpu");
  return conclude({outputs, inputs, "reduce_scatter_multigpu"}, [&](const Lists& lists) {
    if constexpr (IsAsync) return unisono::reduce_scatter_multigpu_async(lists.outputs, lists.inputs, how, t.group, t.options);
    else unisono::reduce_scatter_multigpu(lists.outputs, lists.inputs, how, t.group, t.options);
  });
}

/// Binds a call and its asynchronous form, whose parameters are the same.
template <class F, class... Own>
void def_lists(nb::module_& m, const std::string& name, F* blocking, F* async, const std::string& parameters, const char* text,
               const AsyncText& async_text, const Own&... own) {
  def_both(m, name, blocking, async, parameters, parameters, "list[Buffer]", text, async_text, own...);
}

}  // namespace

void bind_lists(nb::module_& m) {
  def_lists(m, "broadcast_multigpu", &broadcast_multigpu<false>, &broadcast_multigpu<true>, "tensors: list[Buffer], src: RankLike",
            docs::broadcast_multigpu, docs::broadcast_multigpu_async, "tensors"_a, "src"_a);
  def_lists(m, "all_reduce_multigpu", &all_reduce_multigpu<false>, &all_reduce_multigpu<true>, "tensors: list[Buffer], op: ReduceOp | str = 'sum'",
            docs::all_reduce_multigpu, docs::all_reduce_multigpu_async, "tensors"_a, "op"_a = sum_op());
  def_lists(m, "reduce_multigpu", &reduce_multigpu<false>, &reduce_multigpu<true>, "tensors: list[Buffer], dst: RankLike, op: ReduceOp | str = 'sum'",
            docs::reduce_multigpu, docs::reduce_multigpu_async, "tensors"_a, "dst"_a, "op"_a = sum_op());
  def_lists(m, "all_gather_multigpu", &all_gather_multigpu<false>, &all_gather_multigpu<true>, "outputs: list[Buffer], inputs: list[Buffer]",
            docs::all_gather_multigpu, docs::all_gather_multigpu_async, "outputs"_a, "inputs"_a);
  def_lists(m, "reduce_scatter_multigpu", &reduce_scatter_multigpu<false>, &reduce_scatter_multigpu<true>,
            "outputs: list[Buffer], inputs: list[Buffer], op: ReduceOp | str = 'sum'", docs::reduce_scatter_multigpu,
            docs::reduce_scatter_multigpu_async, "outputs"_a, "inputs"_a, "op"_a = sum_op());
}

}  // namespace unisono::python
