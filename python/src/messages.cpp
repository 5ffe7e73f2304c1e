// Messages between two ranks of a group.

#include <string>
#include <vector>

#include "calls.h"
#include "failure.h"
#include "module.h"
#include "signals.h"
#include "unisono/message_info.h"
#include "unisono/point_to_point.h"
#include "values.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

MessageInfo run(const detail::MessageRequest& request, const Trailing& trailing) {
  const Unlocked unlocked;
  return detail::run(request, trailing.group, trailing.options);
}
std::optional<MessageInfo> look(std::optional<Rank> src, const Trailing& trailing, bool waits) {
  const Unlocked unlocked;
  return detail::probe(detail::probed(src), trailing.group, trailing.options, waits);
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
  Buffer buffer(x, Use::read, "isend");
  const detail::MessageRequest request{Operation::send, buffer.view(), rank_of(dst, "isend")};
  return start(request, trailing, memory_of(std::move(buffer), nb::borrow(x)));
}
nb::object irecv(nb::handle x, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "irecv");
  Buffer buffer(x, Use::write, "irecv");
  const detail::MessageRequest request{Operation::recv, buffer.view(), source_of(src, "irecv")};
  return start(request, trailing, memory_of(std::move(buffer), nb::borrow(x)));
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
    Buffer buffer(message.x, message.sends ? Use::read : Use::write, "batch");
    TensorView view = buffer.view();
    const std::optional<Rank> peer = source_of(message.peer, "batch");
    if (message.sends && !peer) throw_invalid("batch", "a message is sent to one rank");
    list.push_back(message.sends ? P2POp::send(view, *peer) : peer ? P2POp::recv(view, *peer) : P2POp::recv(view, any_source));
    memories.push_back(memory_of(std::move(buffer), message.x));
  }
  std::vector<Work> works;
  {
    const Unlocked unlocked;
    works = unisono::batch(list, trailing.group, trailing.options);
  }
  nb::list result;
  for (std::size_t i = 0; i < works.size(); ++i) result.append(as_object(std::move(works[i]), std::move(memories[i])));
  return result;
}

nb::object probe(nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  return nb::cast(*look(source_of(src, "probe"), Trailing(group, timeout, tag, "probe"), true));
}
nb::object try_probe(nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const auto info = look(source_of(src, "try_probe"), Trailing(group, timeout, tag, "try_probe"), false);
  return info ? nb::cast(*info) : nb::none();
}

}  // namespace

#define UNISONO_TRAILING "group"_a = nb::none(), nb::kw_only(), "timeout"_a = nb::none(), "tag"_a = 0
#define UNISONO_TRAILING_TEXT "group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0"

namespace {

void bind_message_types(nb::module_& m) {
  nb::class_<MessageInfo>(m, "MessageInfo", "A message as it is known before it is received.")
      .def_ro("source", &MessageInfo::source, "The sender's rank in the group.")
      .def_ro("tag", &MessageInfo::tag)
      .def_prop_ro(
          "dtype", [](const MessageInfo& info) { return numpy_name(info.dtype); }, "\"float32\", as NumPy calls it.")
      .def_ro("count", &MessageInfo::count, "How many elements it has.")
      .def_prop_ro("nbytes", &MessageInfo::bytes)
      .def_ro("is_object", &MessageInfo::is_object, "Sent by send_object: recv_object takes it, and its length is known then.");
  nb::class_<Message>(m, "P2POp", "One message of a batch: P2POp.send(x, dst) or P2POp.recv(x, src).")
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
  m.def("send", &send, "x"_a.none(), "dst"_a, UNISONO_TRAILING,
        nb::sig("def send(x: Buffer | complex, dst: RankLike, " UNISONO_TRAILING_TEXT ") -> None"),
        R"(Sends a buffer, or a number as a message of one element, to rank `dst`.

Up to 64 KiB it returns without a matching receive; a longer message waits for one. Messages are matched by sender, receiver and tag, in their order.

    unisono.send(x, 1) if unisono.rank() == 0 else unisono.recv(x, 0))");
  m.def("recv", &recv, "x"_a.none(), "src"_a, UNISONO_TRAILING,
        nb::sig("def recv(x: Buffer, src: RankLike | AnySource, " UNISONO_TRAILING_TEXT ") -> int"),
        R"(Receives a message into `x` and returns the sender's rank.

src: a rank, or any_source. tag: any_tag takes any. A message of another length or dtype is Mismatch, and is gone then.

    sender = unisono.recv(x, unisono.any_source))");
  m.def("isend", &isend, "x"_a.none(), "dst"_a, UNISONO_TRAILING, nb::sig("def isend(x: Buffer, dst: RankLike, " UNISONO_TRAILING_TEXT ") -> Work"),
        "send of a buffer that returns at once.");
  m.def("irecv", &irecv, "x"_a.none(), "src"_a, UNISONO_TRAILING,
        nb::sig("def irecv(x: Buffer, src: RankLike | AnySource, " UNISONO_TRAILING_TEXT ") -> Work"),
        "recv that returns at once; work.source_rank() is the sender.");
  m.def("recv_array", &recv_array, "src"_a, UNISONO_TRAILING,
        nb::sig("def recv_array(src: RankLike | AnySource, " UNISONO_TRAILING_TEXT ") -> typing.Any"),
        "Receives a message of any dtype and length: a new array of NumPy with one axis.\n\n    x = unisono.recv_array(1)");
  m.def("send_recv", &send_recv, "x"_a.none(), "dst"_a, "y"_a.none(), "src"_a, UNISONO_TRAILING,
        nb::sig("def send_recv(x: Buffer | complex, dst: RankLike, y: Buffer | None, src: RankLike, " UNISONO_TRAILING_TEXT ") -> typing.Any"),
        R"(Sends `x` to `dst` and receives from `src` at once, so that ranks exchange messages of any size.

With a buffer `y` it is received there, and the sender is returned; with None `x` is a number, and the number that has come is returned.

    right, left = (rank + 1) % size, (rank - 1) % size
    unisono.send_recv(x, right, y, left))");
  m.def("batch", &batch, "operations"_a, UNISONO_TRAILING,
        nb::sig("def batch(operations: collections.abc.Iterable[P2POp], " UNISONO_TRAILING_TEXT ") -> list[Work]"),
        R"(Issues several messages together; the i-th Work is of the i-th. Nothing is issued where one of them is InvalidArgument.

    works = unisono.batch([unisono.P2POp.send(x, 1), unisono.P2POp.recv(y, 1)])
    unisono.wait_all(works))");
  m.def("probe", &probe, "src"_a, UNISONO_TRAILING, nb::sig("def probe(src: RankLike | AnySource, " UNISONO_TRAILING_TEXT ") -> MessageInfo"),
        "Waits for a message and tells what it is, without receiving it.");
  m.def("try_probe", &try_probe, "src"_a, UNISONO_TRAILING,
        nb::sig("def try_probe(src: RankLike | AnySource, " UNISONO_TRAILING_TEXT ") -> MessageInfo | None"),
        "The same without waiting: None where no message has come yet.");
}

}  // namespace unisono::python
