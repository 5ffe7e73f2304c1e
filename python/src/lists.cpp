// Calls to which every process brings several buffers, as one that drives several devices does.

#include "calls.h"
#include "module.h"
#include "signals.h"
#include "unisono/cuda.h"
#include "unisono/multigpu.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// Carries out f(views…) without the interpreter lock, at once or as a Work.
template <class F>
void unlocked(F&& f) {
  const Unlocked released;
  f();
}

/// The buffers of a call that writes to all of them, or to none, but for the first one.
std::vector<Buffer> buffers_of(nb::handle list, Use first, Use others, const char* operation) {
  std::vector<Buffer> buffers;
  for (const nb::handle each : list) buffers.emplace_back(each, buffers.empty() ? first : others, operation);
  return buffers;
}
std::vector<Buffer> broadcast_buffers(nb::handle tensors, Rank root, const Trailing& trailing) {
  return buffers_of(tensors, is_here(root, trailing.group) ? Use::read : Use::write, Use::write, "broadcast_multigpu");
}
std::vector<Buffer> reduce_buffers(nb::handle tensors, Rank root, const Trailing& trailing) {
  return buffers_of(tensors, is_here(root, trailing.group) ? Use::write : Use::read, Use::read, "reduce_multigpu");
}

struct Lists {
  std::vector<Buffer> first, second;
  Memory memory(nb::handle result) {
    Memory kept{.buffers = std::move(first), .result = nb::borrow(result)};
    for (Buffer& buffer : second) kept.buffers.push_back(std::move(buffer));
    return kept;
  }
};

nb::object broadcast_multigpu(nb::handle tensors, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "broadcast_multigpu");
  const Rank root = rank_of(src, "broadcast_multigpu");
  const auto buffers = broadcast_buffers(tensors, root, trailing);
  unlocked([&, views = views_of(buffers)] { unisono::broadcast_multigpu(views, root, trailing.group, trailing.options); });
  return nb::borrow(tensors);
}
nb::object all_reduce_multigpu(nb::handle tensors, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_reduce_multigpu");
  const auto buffers = buffers_of(tensors, Use::write, "all_reduce_multigpu");
  const ReduceOp how = reduce_op_of(op, "all_reduce_multigpu");
  unlocked([&, views = views_of(buffers)] { unisono::all_reduce_multigpu(views, how, trailing.group, trailing.options); });
  return nb::borrow(tensors);
}
nb::object reduce_multigpu(nb::handle tensors, nb::handle dst, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "reduce_multigpu");
  const ReduceOp how = reduce_op_of(op, "reduce_multigpu");
  const Rank root = rank_of(dst, "reduce_multigpu");
  const auto buffers = reduce_buffers(tensors, root, trailing);
  unlocked([&, views = views_of(buffers)] { unisono::reduce_multigpu(views, root, how, trailing.group, trailing.options); });
  return nb::borrow(tensors);
}
nb::object all_gather_multigpu(nb::handle outputs, nb::handle inputs, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_gather_multigpu");
  const auto to = buffers_of(outputs, Use::write, "all_gather_multigpu"), from = buffers_of(inputs, Use::read, "all_gather_multigpu");
  unlocked([&, out = views_of(to), in = views_of(from)] { unisono::all_gather_multigpu(out, in, trailing.group, trailing.options); });
  return nb::borrow(outputs);
}
nb::object reduce_scatter_multigpu(nb::handle outputs, nb::handle inputs, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "reduce_scatter_multigpu");
  const auto to = buffers_of(outputs, Use::write, "reduce_scatter_multigpu"), from = buffers_of(inputs, Use::read, "reduce_scatter_multigpu");
  const ReduceOp how = reduce_op_of(op, "reduce_scatter_multigpu");
  unlocked([&, out = views_of(to), in = views_of(from)] { unisono::reduce_scatter_multigpu(out, in, how, trailing.group, trailing.options); });
  return nb::borrow(outputs);
}

template <class F>
nb::object started(Lists lists, nb::handle result, F&& f) {
  const auto first = views_of(lists.first), second = views_of(lists.second);
  Work work;
  unlocked([&] { work = f(first, second); });
  return as_object(std::move(work), lists.memory(result));
}
using Views = std::vector<TensorView>;

nb::object broadcast_multigpu_async(nb::handle tensors, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "broadcast_multigpu");
  const Rank root = rank_of(src, "broadcast_multigpu");
  return started({broadcast_buffers(tensors, root, t), {}}, tensors,
                 [&](const Views& views, const Views&) { return unisono::broadcast_multigpu_async(views, root, t.group, t.options); });
}
nb::object all_reduce_multigpu_async(nb::handle tensors, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "all_reduce_multigpu");
  const ReduceOp how = reduce_op_of(op, "all_reduce_multigpu");
  return started({buffers_of(tensors, Use::write, "all_reduce_multigpu"), {}}, tensors,
                 [&](const Views& views, const Views&) { return unisono::all_reduce_multigpu_async(views, how, t.group, t.options); });
}
nb::object reduce_multigpu_async(nb::handle tensors, nb::handle dst, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "reduce_multigpu");
  const ReduceOp how = reduce_op_of(op, "reduce_multigpu");
  const Rank root = rank_of(dst, "reduce_multigpu");
  return started({reduce_buffers(tensors, root, t), {}}, tensors,
                 [&](const Views& views, const Views&) { return unisono::reduce_multigpu_async(views, root, how, t.group, t.options); });
}
nb::object all_gather_multigpu_async(nb::handle outputs, nb::handle inputs, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "all_gather_multigpu");
  return started({buffers_of(outputs, Use::write, "all_gather_multigpu"), buffers_of(inputs, Use::read, "all_gather_multigpu")}, outputs,
                 [&](const Views& out, const Views& in) { return unisono::all_gather_multigpu_async(out, in, t.group, t.options); });
}
nb::object reduce_scatter_multigpu_async(nb::handle outputs, nb::handle inputs, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing t(group, timeout, tag, "reduce_scatter_multigpu");
  const ReduceOp how = reduce_op_of(op, "reduce_scatter_multigpu");
  return started({buffers_of(outputs, Use::write, "reduce_scatter_multigpu"), buffers_of(inputs, Use::read, "reduce_scatter_multigpu")}, outputs,
                 [&](const Views& out, const Views& in) { return unisono::reduce_scatter_multigpu_async(out, in, how, t.group, t.options); });
}

}  // namespace

#define UNISONO_TRAILING "group"_a = nb::none(), nb::kw_only(), "timeout"_a = nb::none(), "tag"_a = 0
#define UNISONO_TRAILING_TEXT "group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0"

void bind_lists(nb::module_& m) {
  constexpr const char* lists = "Lists of buffers: all of one dtype and length, none overlapping another, as many on every rank.";
  m.def("broadcast_multigpu", &broadcast_multigpu, "tensors"_a, "src"_a, UNISONO_TRAILING,
        nb::sig("def broadcast_multigpu(tensors: list[Buffer], src: RankLike, " UNISONO_TRAILING_TEXT ") -> list[Buffer]"),
        (std::string("tensors[0] of rank `src` goes to every buffer of every rank. ") + lists).c_str());
  m.def("all_reduce_multigpu", &all_reduce_multigpu, "tensors"_a, "op"_a = sum_op(), UNISONO_TRAILING,
        nb::sig("def all_reduce_multigpu(tensors: list[Buffer], op: ReduceOp | str = 'sum', " UNISONO_TRAILING_TEXT ") -> list[Buffer]"),
        (std::string("Every buffer of every rank becomes the combination of all. ") + lists).c_str());
  m.def("reduce_multigpu", &reduce_multigpu, "tensors"_a, "dst"_a, "op"_a = sum_op(), UNISONO_TRAILING,
        nb::sig("def reduce_multigpu(tensors: list[Buffer], dst: RankLike, op: ReduceOp | str = 'sum', " UNISONO_TRAILING_TEXT ") -> list[Buffer]"),
        (std::string("tensors[0] of rank `dst` becomes the combination of all; every other one stays as it is. ") + lists).c_str());
  m.def("all_gather_multigpu", &all_gather_multigpu, "outputs"_a, "inputs"_a, UNISONO_TRAILING,
        nb::sig("def all_gather_multigpu(outputs: list[Buffer], inputs: list[Buffer], " UNISONO_TRAILING_TEXT ") -> list[Buffer]"),
        "Every output: size() * len(inputs) blocks of the length of an input, block k * len + j from inputs[j] of rank k.");
  m.def("reduce_scatter_multigpu", &reduce_scatter_multigpu, "outputs"_a, "inputs"_a, "op"_a = sum_op(), UNISONO_TRAILING,
        nb::sig("def reduce_scatter_multigpu(outputs: list[Buffer], inputs: list[Buffer], op: ReduceOp | str = 'sum', " UNISONO_TRAILING_TEXT
                ") -> list[Buffer]"),
        "Every input: size() * len(outputs) blocks; outputs[j] of rank k gets the combination of block k * len + j of all inputs of all ranks.");
  m.def("broadcast_multigpu_async", &broadcast_multigpu_async, "tensors"_a, "src"_a, UNISONO_TRAILING,
        nb::sig("def broadcast_multigpu_async(tensors: list[Buffer], src: RankLike, " UNISONO_TRAILING_TEXT ") -> Work"),
        "broadcast_multigpu that returns at once.");
  m.def("all_reduce_multigpu_async", &all_reduce_multigpu_async, "tensors"_a, "op"_a = sum_op(), UNISONO_TRAILING,
        nb::sig("def all_reduce_multigpu_async(tensors: list[Buffer], op: ReduceOp | str = 'sum', " UNISONO_TRAILING_TEXT ") -> Work"),
        "all_reduce_multigpu that returns at once.");
  m.def("reduce_multigpu_async", &reduce_multigpu_async, "tensors"_a, "dst"_a, "op"_a = sum_op(), UNISONO_TRAILING,
        nb::sig("def reduce_multigpu_async(tensors: list[Buffer], dst: RankLike, op: ReduceOp | str = 'sum', " UNISONO_TRAILING_TEXT ") -> Work"),
        "reduce_multigpu that returns at once.");
  m.def("all_gather_multigpu_async", &all_gather_multigpu_async, "outputs"_a, "inputs"_a, UNISONO_TRAILING,
        nb::sig("def all_gather_multigpu_async(outputs: list[Buffer], inputs: list[Buffer], " UNISONO_TRAILING_TEXT ") -> Work"),
        "all_gather_multigpu that returns at once.");
  m.def("reduce_scatter_multigpu_async", &reduce_scatter_multigpu_async, "outputs"_a, "inputs"_a, "op"_a = sum_op(), UNISONO_TRAILING,
        nb::sig("def reduce_scatter_multigpu_async(outputs: list[Buffer], inputs: list[Buffer], op: ReduceOp | str = 'sum', " UNISONO_TRAILING_TEXT
                ") -> Work"),
        "reduce_scatter_multigpu that returns at once.");
}

}  // namespace unisono::python
