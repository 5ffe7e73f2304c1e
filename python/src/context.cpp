// Joining a job and leaving it, what a process knows of its place there, and its last calls.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "buffer.h"
#include "docs/context.h"
#include "docs/records.h"
#include "module.h"
#include "signals.h"
#include "unisono/context.h"
#include "unisono/detail/ending.h"
#include "unisono/launcher.h"
#include "unisono/record.h"
#include "unisono/version.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// Leaves the job because of this, which is what the other ranks are told: "ended with ValueError: bad data". `blamed`: the rank in the world that
/// the exception names, if it does.
void leave_because(const std::string& how, std::optional<int> blamed) {
  const Unlocked here;
  if (!is_initialized()) return;
  detail::give_up(how, blamed);
  finalize();
}

/// Leaves the job because the program ends, and with it what is known of that.
void end_all(const std::string& how) {
  if (!how.empty()) return leave_because(how, std::nullopt);
  const Unlocked here;
  detail::leave_at_exit();
}

std::string configuration() {
  std::ostringstream text;
  const Unlocked here;
  show_config(text);
  return text.str();
}

/// For what may meet the other ranks, or look at devices.
template <auto F>
auto released() {
  return [] { return unlocked(F); };
}

void bind_kinds(nb::module_& m) {
  nb::class_<Device>(m, "Device", docs::device_class)
      .def_prop_ro("type", [](const Device& device) { return device.type == Device::Type::cpu ? "cpu" : "cuda"; })
      .def_ro("index", &Device::index)
      .def("__str__", [](const Device& device) { return to_string(device); })
      .def("__repr__", [](const Device& device) { return "unisono.Device(" + to_string(device) + ")"; })
      .def(
          "__eq__", [](const Device& a, nb::handle b) { return nb::isinstance<Device>(b) && nb::inst_ready(b) && a == *nb::inst_ptr<Device>(b); },
          nb::arg("other").none(), nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Device& device) { return static_cast<std::size_t>(device.index) * 2 + (device.type == Device::Type::cpu ? 0 : 1); });
  nb::enum_<Launcher>(m, "Launcher", docs::launcher)
      .value("none", Launcher::none)
      .value("unisono", Launcher::unisono)
      .value("torchrun", Launcher::torchrun)
      .value("slurm", Launcher::slurm)
      .value("openmpi", Launcher::openmpi)
      .value("pmi", Launcher::pmi)
      .value("horovod", Launcher::horovod);
  m.attr("__version__") =
      std::to_string(UNISONO_VERSION_MAJOR) + "." + std::to_string(UNISONO_VERSION_MINOR) + "." + std::to_string(UNISONO_VERSION_PATCH);
}

void bind_place(nb::module_& m) {
  m.def("rank", released<&rank>(), docs::rank);
  m.def("world_size", released<&world_size>(), docstring(docs::world_size).c_str());
  m.def("local_rank", released<&local_rank>(), docs::local_rank);
  m.def("nproc_per_node", released<&nproc_per_node>(), docs::nproc_per_node);
  m.def("nnodes", released<&nnodes>(), docs::nnodes);
  m.def("node_rank", released<&node_rank>(), docs::node_rank);
  m.def(
      "dist_info",
      [] {
        const DistInfo info = unlocked([] { return dist_info(); });
        return nb::make_tuple(info.rank, info.world_size);
      },
      nb::sig("def dist_info() -> tuple[int, int]"), docs::dist_info);
  m.def("hostname", released<&hostname>(), docs::hostname);
  m.def("device", released<&device>(), docs::device);
  m.def("backend", released<&backend>(), docs::backend);
  m.def("model_name", released<&model_name>(), docs::model_name);
  m.def("available_backends", released<&available_backends>(), docs::available_backends);
  m.def(
      "is_backend_available", [](const std::string& name) { return is_backend_available(name); }, "name"_a, docs::is_backend_available);
  m.def(
      "sync", [](bool temporary) { unlocked([&] { sync(temporary); }); }, "temporary"_a = false, docs::sync);
  m.def("set_local_rank", &set_local_rank, "index"_a, docs::set_local_rank);
  m.def("_configuration", &configuration);
  m.def("infer_launcher", &infer_launcher, docs::infer_launcher);
  m.def("launcher_local_rank", &launcher_local_rank, docs::launcher_local_rank);
  m.def("is_torchelastic_launched", &is_torchelastic_launched, docs::is_torchelastic_launched);
}

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
  nb::class_<CallRecord> type(m, "CallRecord", docs::call_record);
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
          "The line of the program, as \"train.py:57\"; None if it is not known.")
      .def_ro("state", &CallRecord::state)
      .def_ro("sequence", &CallRecord::sequence, "The number of the call in its group, from 1.")
      .def_ro("bytes", &CallRecord::bytes, "The bytes that this rank gives, or takes where it gives none.")
      .def_prop_ro(
          "dtype", [](const CallRecord& call) { return numpy_name(call.dtype); }, "\"float32\", as NumPy calls it.")
      .def_ro("peer", &CallRecord::peer, "The root, the source or the destination, by its rank in the world; None if there is none.")
      .def_prop_ro("queued", &seconds<&CallRecord::queued>, "When an asynchronous call was posted, in seconds of time.monotonic().")
      .def_prop_ro("begun", &seconds<&CallRecord::begun>, "When the call began, likewise; None for one of less than 4 KiB that did not wait.")
      .def_prop_ro("done", &seconds<&CallRecord::done>, "When it was over, likewise; None while it goes on.")
      .def_ro("waited_for", &CallRecord::waited_for, "The first of the ranks that the call waited for, by its rank in the world.")
      .def_ro("waited_for_count", &CallRecord::waited_for_count, "How many ranks it waited for.")
      .def("__repr__", &text_of);
}

void bind_records(nb::module_& m) {
  bind_call(m);
  m.def(
      "record", [] { return unlocked([] { return record(); }); }, docs::record);
}

}  // namespace

void bind_context(nb::module_& m) {
  bind_kinds(m);
  m.def(
      "_initialize", [](const InitOptions& options) { unlocked([&] { initialize(options); }); }, "options"_a,
      "Joins the job with these options: see unisono.initialize.");
  m.def("finalize", released<&finalize>(), docs::finalize);
  m.def("_leave_because", &leave_because, "how"_a, "blamed"_a = nb::none());
  m.def("end_all", &end_all, "how"_a, "The end of the program calls it.");
  m.def("is_initialized", &is_initialized, docs::is_initialized);
  bind_place(m);
  bind_records(m);
}

}  // namespace unisono::python
