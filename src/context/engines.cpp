#include "context/engines.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/devices.h"
#include "backends/registry.h"
#include "backends/spanning/spanning.h"
#include "context/topology.h"
#include "ground/log.h"

namespace unisono::context {
namespace {

// What `auto` may take between hosts, the best first. Of Gloo's connections nobody proves that he is of the job: it is for those who ask for it.
std::string usable_between_hosts(Launcher launcher) {
  const bool by_mpi = launcher == Launcher::openmpi || launcher == Launcher::pmi;
  return by_mpi && backends::availability("mpi").available ? "mpi tcp " : "tcp ";
}

std::string asked_key(int rank) { return fmt::format("engines/{}", rank); }
constexpr std::string_view verdict_key = "engines/verdict";

/// By rank 0, from what all have said: "take NAME", or "differ RANK NAME NAME" where a rank asks for another backend than rank 0,
/// with its name and rank 0's.
std::string compare(const Joining& joining, std::string_view asked) {
  std::vector<std::string> usable;
  for (int r = 0; r < joining.world_size; ++r) {
    const std::string text = joining.store.get(asked_key(r), joining.deadline.left());
    const auto line = std::min(text.find('\n'), text.size());
    if (text.substr(0, line) != asked) return fmt::format("differ {} {} {}", r, text.substr(0, line), asked);
    usable.push_back(text.substr(std::min(line + 1, text.size())));
  }
  std::istringstream names(usable.front());
  for (std::string name; names >> name;) {
    if (std::ranges::all_of(usable, [&](const std::string& list) { return list.find(name + " ") != std::string::npos; })) return "take " + name;
  }
  return "take tcp";
}

/// What rank 0 has found. Where that does not come in time, the ranks that have said nothing are named.
std::string verdict_of(const Joining& joining) {
  try {
    return joining.store.get(verdict_key, joining.deadline.left());
  } catch (const Timeout&) {
    std::vector<int> missing;
    for (int r = 0; r < joining.world_size; ++r) {
      if (!joining.store.try_get(asked_key(r))) missing.push_back(r);
    }
    if (missing.empty()) missing.push_back(0);
    throw Timeout(fmt::format("rank {} did not say in time which engine it asks for", fmt::join(missing, ", ")),
                  {.operation = "initialize", .rank = joining.rank}, missing);
  }
}

/// Every rank says what it asks for and what it could take; the first of rank 0's list that all have is taken. InvalidArgument where they ask for
/// different backends. Rank 0 reads what all say, and they read what it found: four requests for each rank.
std::string agree(const Joining& joining, const std::string& asked, const std::string& usable) {
  joining.store.set(asked_key(joining.rank), asked + "\n" + usable);
  if (joining.rank == 0) joining.store.set(verdict_key, compare(joining, asked));
  std::istringstream verdict(verdict_of(joining));
  std::string kind, name, of_rank_0;
  int culprit = 0;
  verdict >> kind;
  if (kind == "take" && verdict >> name) return name;
  if (kind != "differ" || !(verdict >> culprit >> name >> of_rank_0)) throw ProtocolError("the store holds a choice of engines that is none of ours");
  throw InvalidArgument(
      fmt::format("rank 0 asks for backend {}, and rank {} for {}", of_rank_0, culprit, name),
      {.operation = "initialize", .rank = joining.rank, .culprit = culprit, .hint = "give every rank the same backend and UNISONO_BACKEND"});
}

/// The source of the request, for the log.
std::string describe_request(const InitOptions& options, const ground::Environment& environment, const std::string& asked) {
  if (asked == "auto") return "chosen for where the ranks are";
  return backends::parse_request(options.backend).host != "auto" ? "as the program asks"
                                                                 : fmt::format("as UNISONO_BACKEND={} asks", *environment.get("UNISONO_BACKEND"));
}

bool on_one_host(const BackendOptions& options) {
  return std::adjacent_find(options.hosts.begin(), options.hosts.end(), std::not_equal_to<>()) == options.hosts.end();
}

}  // namespace

Selection select_engines(const InitOptions& options, const ground::Environment& environment, const Topology& topology, Launcher launcher,
                         const Joining& joining) {
  const int rank = joining.rank, world_size = joining.world_size;
  backends::Request request = backends::parse_request(options.backend, backends::Look::as_a_rank);
  if (request.host == "auto" && request.device.empty()) {
    if (const auto variable = environment.get("UNISONO_BACKEND")) request = backends::parse_request(*variable, backends::Look::as_a_rank);
  }
  Selection selection{.asked = request.host, .host = request.host, .device = request.device};
  const bool between_hosts = topology.machines > 1;
  std::string common;
  if (world_size > 1) common = agree(joining, request.host, between_hosts && request.host == "auto" ? usable_between_hosts(launcher) : std::string());
  if (selection.host == "auto") {
    selection.host = world_size == 1 ? "serial" : between_hosts ? common : "native";
    if (between_hosts && rank == 0) {
      ground::warn(fmt::format("{} ranks on {} hosts: backend {} between hosts, native inside them", world_size, topology.machines, selection.host));
    }
  }
  if (selection.device.empty() && request.host == "auto" && world_size > 1 && backends::availability("nccl", backends::Look::as_a_rank).available) {
    selection.device = "nccl";
    selection.device_at_need = true;
  }
  backends::factory(selection.host);  // throws where it cannot run here
  ground::debug(fmt::format("engine {}{}{} ({})", selection.host, selection.device.empty() ? "" : ", for device memory " + selection.device,
                            selection.device_at_need ? " at need" : "", describe_request(options, environment, request.host)));
  if (selection.host == "serial" && world_size > 1) {
    throw InvalidArgument("backend serial is for one process, and there are " + std::to_string(world_size), {.operation = "initialize"});
  }
  if (selection.host == "native" && topology.machines > 1) {
    throw BackendUnavailable(fmt::format("the ranks are on {} hosts, and backend native serves one: {}", topology.machines, describe_hosts(topology)),
                             {.operation = "initialize", .rank = rank, .hint = "leave the choice to unisono (auto), or ask for tcp, mpi or gloo"});
  }
  return selection;
}

Selection select_for_group(const Selection& of_world, const std::string& backend, const std::vector<int>& hosts) {
  if (backend.empty()) return of_world;
  const backends::Request request = backends::parse_request(backend);
  Selection selection = of_world;
  selection.device_at_need = true;  // as in all groups but the world
  if (!request.device.empty()) selection.device = request.device;
  if (request.host == "auto") {
    if (request.device.empty()) selection.asked = "auto";
    return selection;
  }
  selection.asked = selection.host = request.host;
  selection.device = request.device;
  backends::factory(selection.host);  // throws where it cannot run here
  if (selection.host == "serial" && hosts.size() > 1)
    throw InvalidArgument(fmt::format("backend serial is for one process, and there are {}", hosts.size()));
  if (selection.host == "native" && std::ranges::adjacent_find(hosts, std::not_equal_to<>()) != hosts.end()) {
    throw BackendUnavailable("the ranks are on several hosts, and backend native serves one",
                             {.hint = "leave the choice to unisono (auto), or ask for tcp, mpi or gloo"});
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
