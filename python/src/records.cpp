// The last calls of this rank.

#include "unisono/record.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <string>
#include <vector>

#include "buffer.h"
#include "module.h"
#include "signals.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// The seconds of time.monotonic(), which has the same clock.
template <std::optional<CallRecord::Time> CallRecord::*Member>
std::optional<double> seconds(const CallRecord& call) {
  const auto& time = call.*Member;
  if (!time) return std::nullopt;
  return std::chrono::duration<double>(time->time_since_epoch()).count();
}

std::string text_of(const CallRecord& call) {
  const char* const states[] = {"queued", "running", "waiting", "done", "failed"};
  return "<unisono.CallRecord " + call.operation + " #" + std::to_string(call.sequence) + " of " + call.group + ": " +
         states[static_cast<std::size_t>(call.state)] + (call.place.empty() ? "" : ", at " + call.place) + ">";
}

void bind_call(nb::module_& m) {
  nb::class_<CallRecord> type(m, "CallRecord", "A call of this rank: see record.");
  nb::enum_<CallRecord::State>(type, "State", "The stages of a call.")
      .value("queued", CallRecord::State::queued, "Behind other asynchronous calls.")
      .value("running", CallRecord::State::running, "Begun.")
      .value("waiting", CallRecord::State::waiting, "Has waited for longer than a few microseconds.")
      .value("done", CallRecord::State::done)
      .value("failed", CallRecord::State::failed);
  type.def_ro("operation", &CallRecord::operation, "The function that the program called: \"all_reduce\".")
      .def_ro("group", &CallRecord::group, "The name of the group.")
      .def_prop_ro(
          "place", [](const CallRecord& call) { return call.place.empty() ? std::nullopt : std::optional(call.place); },
          "The line of the program, as \"train.py:57\"; None where it is not known.")
      .def_ro("state", &CallRecord::state)
      .def_ro("sequence", &CallRecord::sequence, "The number of the call in its group, from 1.")
      .def_ro("bytes", &CallRecord::bytes, "The bytes that this rank gives, or takes where it gives none.")
      .def_prop_ro(
          "dtype", [](const CallRecord& call) { return numpy_name(call.dtype); }, "\"float32\", as NumPy calls it.")
      .def_ro("peer", &CallRecord::peer, "The root, the source or the destination, by its rank in the world; None where there is none.")
      .def_prop_ro("queued", &seconds<&CallRecord::queued>, "When an asynchronous call was posted, in seconds of time.monotonic().")
      .def_prop_ro("begun", &seconds<&CallRecord::begun>, "When the call began, likewise; None for one of less than 4 KiB that did not wait.")
      .def_prop_ro("done", &seconds<&CallRecord::done>, "When it was over, likewise; None while it goes on.")
      .def_ro("waited_for", &CallRecord::waited_for, "The first of the ranks that the call waited for, by its rank in the world.")
      .def_ro("waited_for_count", &CallRecord::waited_for_count, "How many ranks it waited for.")
      .def("__repr__", &text_of);
}

}  // namespace

void bind_records(nb::module_& m) {
  bind_call(m);
  m.def(
      "record",
      [] {
        const Unlocked unlocked;
        return record();
      },
      R"(The last calls of this rank, the latest last: at most 1024 of the thread that called initialize, and 256 of all others.

At any time, by any thread, and after a failure as well. Raises NotInitialized where rank() does.

    for call in unisono.record()[-3:]:
        print(call.operation, call.sequence, call.place, call.state.name))");
}

}  // namespace unisono::python
