#include "context/engines.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/devices.h"
#include "backends/registry.h"
#include "backends/spanning/spanning.h"
#include "context/topology.h"
#include "ground/log.h"

namespace unisono::context {
namespace {

std::string best_between_hosts(Launcher launcher) {
  const bool by_mpi = launcher == Launcher::openmpi || launcher == Launcher::pmi;
  if (by_mpi && backends::availability("mpi").available) return "mpi";
  if (backends::availability("gloo").available) return "gloo";
  return "tcp";
}

bool on_one_host(const BackendOptions& options) {
  return std::adjacent_find(options.hosts.begin(), options.hosts.end(), std::not_equal_to<>()) == options.hosts.end();
}

}  // namespace

Selection select_engines(const InitOptions& options, const ground::Environment& environment, const Topology& topology, Launcher launcher, int rank,
                         int world_size) {
  backends::Request request = backends::parse_request(options.backend);
  if (request.host == "auto" && request.device.empty()) {
    if (const auto variable = environment.get("UNISONO_BACKEND")) request = backends::parse_request(*variable);
  }
  Selection selection{.asked = request.host, .host = request.host, .device = request.device};
  if (selection.host == "auto") {
    selection.host = world_size == 1 ? "serial" : topology.machines == 1 ? "native" : best_between_hosts(launcher);
    if (topology.machines > 1 && rank == 0) {
      ground::info(fmt::format("{} ranks on {} hosts: {} between them, native inside a host", world_size, topology.machines, selection.host));
    }
  }
  if (selection.device.empty() && request.host == "auto" && world_size > 1 && backends::availability("nccl").available) {
    selection.device = "nccl";
    selection.device_at_need = true;
  }
  backends::factory(selection.host);  // throws where it cannot run here
  if (selection.host == "serial" && world_size > 1) {
    throw InvalidArgument("backend serial is for one process, and there are " + std::to_string(world_size), {.operation = "initialize"});
  }
  if (selection.host == "native" && topology.machines > 1) {
    throw BackendUnavailable(fmt::format("the ranks are on {} hosts, and backend native serves one: {}", topology.machines, describe_hosts(topology)),
                             {.operation = "initialize", .rank = rank, .hint = "leave the choice to unisono (auto), or ask for gloo, mpi or tcp"});
  }
  return selection;
}

std::unique_ptr<Backend> make_group_engine(const Selection& selection, const BackendOptions& options) {
  const bool alone = options.global_ranks.size() == 1;
  std::string name = selection.host;
  if (selection.asked == "auto") name = alone ? "serial" : on_one_host(options) ? "native" : name;
  auto host = backends::factory(name)(options);
  if (selection.device.empty()) return host;
  const std::string shown = selection.asked == "auto" ? selection.device : fmt::format("cpu:{},cuda:{}", name, selection.device);
  EngineOptions engine_options = backends::engine_options(options, "device/", host->crowded());
  engine_options.at_need = selection.device_at_need || options.world != nullptr;  // many groups never see device memory
  auto engine = backends::device_factory(selection.device)(engine_options);
  return std::make_unique<backends::Devices>(shown, std::move(host), std::move(engine), options.rank, static_cast<int>(options.global_ranks.size()));
}

}  // namespace unisono::context
