// A receive whose length the sender decides, into a container that can change its own.

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "arguments.h"
#include "buffer.h"
#include "failure.h"
#include "imports.h"
#include "module.h"
#include "signals.h"
#include "unisono/message_info.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

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

}  // namespace

void bind_resized(nb::module_& m) {
  m.def("recv_resized", &recv_resized, "x"_a.none(), "src"_a, "group"_a = nb::none(), nb::kw_only(), "timeout"_a = nb::none(), "tag"_a = 0,
        nb::sig("def recv_resized(x: typing.Any, src: RankLike | AnySource, group: ProcessGroup | None = None, *, timeout: Seconds = None, "
                "tag: int = 0) -> MessageInfo"),
        R"(Receives a message into `x`, which becomes as long as the message, and returns what has come.

x: a bytearray (of uint8) or an array.array; recv_array returns a new array of NumPy instead. src: a rank, or any_source.
A message of another dtype is Mismatch, is gone then, and leaves `x` as it is. InvalidArgument where `x` cannot change its length, as while a
memoryview of it is held; nothing is received then.

    numbers = array.array("d")
    info = unisono.recv_resized(numbers, unisono.any_source))");
}

}  // namespace unisono::python
