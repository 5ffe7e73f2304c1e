// Joining a job and leaving it, and what a process knows of its place there.

#include "unisono/context.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <sstream>
#include <string>

#include "module.h"
#include "signals.h"
#include "unisono/detail/ending.h"
#include "unisono/launcher.h"
#include "unisono/version.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

void join(const InitOptions& options) {
  const Unlocked unlocked;
  initialize(options);
}

/// Leaves the job because of this, which is what the other ranks are told: "ended with ValueError: bad data". `blamed`: the rank in the world that
/// the exception names, if it does.
void leave_because(const std::string& how, std::optional<int> blamed) {
  const Unlocked unlocked;
  if (!is_initialized()) return;
  detail::give_up(how, blamed);
  finalize();
}

/// Leaves the job because the program ends, and with it what is known of that.
void end_all(const std::string& how) {
  if (!how.empty()) return leave_because(how, std::nullopt);
  const Unlocked unlocked;
  detail::leave_at_exit();
}

std::string configuration() {
  std::ostringstream text;
  const Unlocked unlocked;
  show_config(text);
  return text.str();
}

/// For what may meet the other ranks, or look at devices.
template <auto F>
auto unlocked() {
  return [] {
    const Unlocked released;
    return F();
  };
}

void bind_kinds(nb::module_& m) {
  nb::class_<Device>(m, "Device", "Where memory lies: \"cpu\", or \"cuda\" with the index of the device.")
      .def_prop_ro("type", [](const Device& device) { return device.type == Device::Type::cpu ? "cpu" : "cuda"; })
      .def_ro("index", &Device::index)
      .def("__str__", [](const Device& device) { return to_string(device); })
      .def("__repr__", [](const Device& device) { return "unisono.Device(" + to_string(device) + ")"; })
      .def(
          "__eq__", [](const Device& a, nb::handle b) { return nb::isinstance<Device>(b) && nb::inst_ready(b) && a == *nb::inst_ptr<Device>(b); },
          nb::arg("other").none(), nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Device& device) { return static_cast<std::size_t>(device.index) * 2 + (device.type == Device::Type::cpu ? 0 : 1); });
  nb::enum_<Launcher>(m, "Launcher", "What started this process, as far as its environment tells.")
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

void bind_place(nb::module_& m);

}  // namespace

void bind_context(nb::module_& m) {
  bind_kinds(m);
  m.def("initialize", &join, "options"_a,
        R"(Joins the job; returns when all of its processes have. A program that was not launched is rank 0 of 1.

backend: auto, serial, native, tcp, gloo, mpi, ucx, nccl, "cpu:native,cuda:nccl", or one that a plug-in registers.
    Or InitOptions, which then has everything.
init_method: env:// (what the launcher says), tcp://host:port, file:///path, etcd://host:port/prefix; or `store`, with `rank` and `world_size`.
timeout: seconds of every call that does not say otherwise; 30 minutes, or UNISONO_TIMEOUT.

Raises AlreadyInitialized, InvalidArgument, BackendUnavailable, and Timeout, which names the ranks that did not come.

    unisono.initialize()
    ...
    unisono.finalize())");
  m.def("finalize", unlocked<&finalize>(),
        "Waits, at most 10 s, for what is under way, says goodbye and leaves. Idempotent. A program that ends without it does it then.");
  m.def("_leave_because", &leave_because, "how"_a, "blamed"_a = nb::none());
  m.def("end_all", &end_all, "how"_a, "What the end of the program calls.");
  m.def("is_initialized", &is_initialized, "Whether this process has joined a job, and has not left it.");
  bind_place(m);
}

namespace {

void bind_place(nb::module_& m) {
  m.def("rank", unlocked<&rank>(), "This process's rank in the world: 0 where nothing was launched.");
  m.def("world_size", unlocked<&world_size>(), "How many processes the job has.");
  m.def("local_rank", unlocked<&local_rank>(), "This process's rank among those of its host.");
  m.def("nproc_per_node", unlocked<&nproc_per_node>(), "How many processes this host has.");
  m.def("nnodes", unlocked<&nnodes>(), "How many hosts the job has.");
  m.def("node_rank", unlocked<&node_rank>(), "The rank of this host, in the order of each host's lowest rank.");
  m.def(
      "dist_info",
      [] {
        DistInfo info{};
        {
          const Unlocked released;
          info = dist_info();
        }
        return nb::make_tuple(info.rank, info.world_size);
      },
      nb::sig("def dist_info() -> tuple[int, int]"), "The rank and the world's size.");
  m.def("hostname", unlocked<&hostname>(), "The name of this host.");
  m.def("device", unlocked<&device>(),
        "The device that this process computes on: of nccl its GPU, else the cpu.\n\n    x = x.to(str(unisono.device()))");
  m.def("backend", unlocked<&backend>(), "The world's backend, as \"native\"; None where nothing is distributed.");
  m.def("model_name", unlocked<&model_name>(), "\"serial\" where nothing is distributed, else the backend's with -dist: \"native-dist\".");
  m.def("available_backends", unlocked<&available_backends>(), "The backends that can be used here.");
  m.def(
      "is_backend_available", [](const std::string& name) { return is_backend_available(name); }, "name"_a, "Whether one can be used here.");
  m.def(
      "sync",
      [](bool temporary) {
        const Unlocked released;
        sync(temporary);
      },
      "temporary"_a = false, "Joins the job that somebody else has formed in this process (MPI, say), until finalize or, temporary, the next sync.");
  m.def("set_local_rank", &set_local_rank, "index"_a, "What local_rank() shall be, from the next initialize on, where the launcher does not say.");
  m.def("_configuration", &configuration);
  m.def("infer_launcher", &infer_launcher, "What started this process.");
  m.def("launcher_local_rank", &launcher_local_rank, "The local rank that the launcher says, also before initialize; None where it says none.");
  m.def("is_torchelastic_launched", &is_torchelastic_launched,
        "Whether torchrun has started this process; infer_launcher() says so as well where somebody has set its variables by hand.");
}

}  // namespace

}  // namespace unisono::python
