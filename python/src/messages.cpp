// Messages between two ranks of a group.

#include <string>
#include <vector>

#include "calls.h"
#include "docs/probes.h"
#include "docs/messages.h"
#include "failure.h"
#include "imports.h"
#include "module.h"
#include "signals.h"
#include "unisono/message_info.h"
#include "unisono/point_to_point.h"
#include "values.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

MessageInfo run(const detail::MessageRequest& request, const Trailing& trailing) {
  return unlocked([&] { return detail::run(request, trailing.group, trailing.options); });
}
std::optional<MessageInfo> look(std::optional<Rank> src, const Trailing& trailing, bool waits) {
  return unlocked([&] { return detail::probe(detail::probed(src), trailing.group, trailing.options, waits); });
}

void send(nb::handle x, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "send");
  const Rank peer = rank_of(dst, "send");
  if (Value::is_value(x)) {
    Value value(x, "send");
    run({Operation::send, value.view(), peer}, trailing);
    return;
  }
  const Buffer buffer(x, Use::read, "send");
  run({Operation::send, buffer.view(), peer}, trailing);
}
int recv(nb::handle x, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "recv");
  const Buffer buffer(x, Use::write, "recv");
  return run({Operation::recv, buffer.view(), source_of(src, "recv")}, trailing).source;
}
nb::object isend(nb::handle x, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "isend");
  Memory memory{.result = nb::borrow(x)};
  const detail::MessageRequest request{Operation::send, memory.add(x, Use::read, "isend"), rank_of(dst, "isend")};
  return start(request, trailing, std::move(memory));
}
nb::object irecv(nb::handle x, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "irecv");
  Memory memory{.result = nb::borrow(x)};
  const detail::MessageRequest request{Operation::recv, memory.add(x, Use::write, "irecv"), source_of(src, "irecv")};
  return start(request, trailing, std::move(memory));
}

/// A message of any length, as a new array.
nb::object recv_array(nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "recv_array");
  const std::optional<MessageInfo> info = look(source_of(src, "recv_array"), trailing, true);
  if (info->is_object) throw Mismatch("the message is an object", {.operation = "recv_array", .hint = "recv_object takes it"});
  nb::object array = empty_array(info->dtype, {static_cast<std::int64_t>(info->count)});
  const Buffer buffer(array, Use::write, "recv_array");
  Trailing rest = trailing;
  rest.options.tag = info->tag;
  run({Operation::recv, buffer.view(), Rank(info->source)}, rest);
  return array;
}

int exchange(const TensorView& out, Rank dst, const TensorView& in, std::optional<Rank> src, const Trailing& trailing) {
  const Unlocked unlocked;
  return detail::send_recv({Operation::send, out, dst}, {Operation::recv, in, src}, trailing.group, trailing.options);
}

nb::object send_recv(nb::handle x, nb::handle dst, nb::handle y, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "send_recv");
  if (y.is_none()) {
    Value value(x, "send_recv"), received = value;
    exchange(value.view(), rank_of(dst, "send_recv"), received.view(), source_of(src, "send_recv"), trailing);
    return received.object();
  }
  const Buffer out(x, Use::read, "send_recv"), in(y, Use::write, "send_recv");
  return nb::int_(exchange(out.view(), rank_of(dst, "send_recv"), in.view(), source_of(src, "send_recv"), trailing));
}

/// One message of a batch. The view is taken when the batch is issued.
struct Message {
  nb::object x;
  nb::object peer;
  bool sends;
};

nb::object batch(nb::handle operations, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "batch");
  std::vector<P2POp> list;
  std::vector<Memory> memories;
  for (const nb::handle each : operations) {
    if (!nb::isinstance<Message>(each)) throw_invalid("batch", "a batch is of P2POp.send(x, dst) and P2POp.recv(x, src)");
    const Message& message = content_of<Message>(each, "batch");
    TensorView view = memories.emplace_back(Memory{.result = message.x}).add(message.x, message.sends ? Use::read : Use::write, "batch");
    const std::optional<Rank> peer = source_of(message.peer, "batch");
    if (message.sends && !peer) throw_invalid("batch", "a message is sent to one rank");
    list.push_back(message.sends ? P2POp::send(view, *peer) : peer ? P2POp::recv(view, *peer) : P2POp::recv(view, any_source));
  }
  std::vector<Work> works = unlocked([&] { return unisono::batch(list, trailing.group, trailing.options); });
  nb::list result;
  for (std::size_t i = 0; i < works.size(); ++i) result.append(as_object(std::move(works[i]), std::move(memories[i])));
  return result;
}

// recv_resized: a receive whose length the sender decides, into a container that can change its own.

bool is_array(nb::handle x) { return nb::isinstance(x, imported("array").attr("array")); }

/// Carries out what changes the length of a container.
template <class F>
void changing_length(F&& change) {
  try {
    change();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_BufferError)) throw;
    throw_invalid("recv_resized", "this container cannot change its length while something else holds its memory (a memoryview, an array over it)");
  }
}

/// InvalidArgument for what cannot change its length now, before anything is received.
void check_resizable(nb::handle x) {
  if (!PyByteArray_Check(x.ptr()) && !is_array(x)) {
    throw_invalid("recv_resized", "a container that can change its length is meant: a bytearray, or an array.array",
                  "recv_array returns a new array, as long as the message");
  }
  { const Buffer elements(x, Use::write, "recv_resized"); }  // of a dtype that messages have
  changing_length([&] {
    x.attr("append")(0);
    x.attr("pop")();
  });
}

void resize(nb::handle x, std::size_t count) {
  const std::size_t now = nb::len(x);
  if (PyByteArray_Check(x.ptr())) {
    if (PyByteArray_Resize(x.ptr(), static_cast<Py_ssize_t>(count)) != 0) throw nb::python_error();
  } else if (count < now) {
    if (PySequence_DelSlice(x.ptr(), static_cast<Py_ssize_t>(count), static_cast<Py_ssize_t>(now)) != 0) throw nb::python_error();
  } else {
    const auto more = static_cast<Py_ssize_t>((count - now) * nb::cast<std::size_t>(x.attr("itemsize")));
    x.attr("frombytes")(nb::steal(PyByteArray_FromObject(nb::int_(more).ptr())));
  }
}

MessageInfo recv_resized(nb::handle x, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "recv_resized");
  const std::optional<Rank> source = source_of(src, "recv_resized");
  check_resizable(x);
  std::optional<Buffer> memory(std::in_place, x, Use::write, "recv_resized");
  const TensorView now = memory->view();
  const Unlocked unlocked;
  return detail::recv_sized(
      now, source,
      [&](std::size_t count) {
        return locked([&] {
          memory.reset();
          changing_length([&] { resize(x, count); });
          memory.emplace(x, Use::write, "recv_resized");
          return memory->view();
        });
      },
      trailing.group, trailing.options);
}

nb::object probe(nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  return nb::cast(*look(source_of(src, "probe"), Trailing(group, timeout, tag, "probe"), true));
}
nb::object try_probe(nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const auto info = look(source_of(src, "try_probe"), Trailing(group, timeout, tag, "try_probe"), false);
  return info ? nb::cast(*info) : nb::none();
}

void bind_message_types(nb::module_& m) {
  nb::class_<MessageInfo>(m, "MessageInfo", docstring(docs::message_info).c_str())
      .def_ro("source", &MessageInfo::source, "The sender's rank in the group.")
      .def_ro("tag", &MessageInfo::tag)
      .def_prop_ro(
          "dtype", [](const MessageInfo& info) { return numpy_name(info.dtype); }, "\"float32\", as NumPy calls it.")
      .def_ro("count", &MessageInfo::count, "How many elements it has.")
      .def_prop_ro("nbytes", &MessageInfo::bytes)
      .def_ro("is_object", &MessageInfo::is_object, "Sent by send_object: recv_object takes it, and its length is known then.");
  nb::class_<Message>(m, "P2POp", docstring(docs::p2p_op).c_str())
      .def_static(
          "send",
          [](nb::object x, nb::object dst) {
            return Message{std::move(x), std::move(dst), true};
          },
          "x"_a.none(), "dst"_a, nb::sig("def send(x: Buffer, dst: RankLike) -> P2POp"))
      .def_static(
          "recv",
          [](nb::object x, nb::object src) {
            return Message{std::move(x), std::move(src), false};
          },
          "x"_a.none(), "src"_a, nb::sig("def recv(x: Buffer, src: RankLike | AnySource) -> P2POp"));
  m.attr("any_tag") = any_tag;
}

}  // namespace

void bind_messages(nb::module_& m) {
  bind_message_types(m);
  def_call(m, "send", &send, "x: Buffer | complex, dst: RankLike", "None", docs::send, "x"_a.none(), "dst"_a);
  def_call(m, "recv", &recv, "x: Buffer, src: RankLike | AnySource", "int", docs::recv, "x"_a.none(), "src"_a);
  def_call(m, "isend", &isend, "x: Buffer, dst: RankLike", "Work", docs::isend, "x"_a.none(), "dst"_a);
  def_call(m, "irecv", &irecv, "x: Buffer, src: RankLike | AnySource", "Work", docs::irecv, "x"_a.none(), "src"_a);
  def_call(m, "recv_array", &recv_array, "src: RankLike | AnySource", "typing.Any", docs::recv_array, "src"_a);
  def_call(m, "send_recv", &send_recv, "x: Buffer | complex, dst: RankLike, y: Buffer | None, src: RankLike", "typing.Any", docs::send_recv,
           "x"_a.none(), "dst"_a, "y"_a.none(), "src"_a);
  def_call(m, "batch", &batch, "operations: collections.abc.Iterable[P2POp]", "list[Work]", docs::batch, "operations"_a);
  def_call(m, "recv_resized", &recv_resized, "x: typing.Any, src: RankLike | AnySource", "MessageInfo", docs::recv_resized, "x"_a.none(), "src"_a);
  def_call(m, "probe", &probe, "src: RankLike | AnySource", "MessageInfo", docs::probe, "src"_a);
  def_call(m, "try_probe", &try_probe, "src: RankLike | AnySource", "MessageInfo | None", docs::try_probe, "src"_a);
}

}  // namespace unisono::python
