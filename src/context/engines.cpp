#include "context/engines.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engines/registry.h"
#include "context/topology.h"
#include "schedule/network_override.h"
#include "schedule/selection.h"
#include "base/log.h"
#include "base/tls.h"
#include "transport/tcp/eager.h"
#include "transport/tcp/link.h"

namespace unisono::context {
namespace {

// The engines that `auto` may take between hosts, the best first. Gloo is not among them: its connections are not authenticated. Nor are those of
// ucx, which is there for the networks that no other engine can use.
std::string usable_between_hosts(Launcher launcher, bool encrypted) {
  if (encrypted) return "tcp ";
  std::string names;
  if ((launcher == Launcher::openmpi || launcher == Launcher::pmi) && engines::availability("mpi").available) names += "mpi ";
  const std::string why_not_ucx = engines::why_not_auto("ucx");
  if (why_not_ucx.empty()) names += "ucx ";
  else base::debug("backend ucx is not taken by itself: " + why_not_ucx);
  return names + "tcp ";
}

// An engine that does not encrypt is not taken where encryption is asked for.
bool wants_encryption(const base::Environment& environment) { return base::tls_options(environment).mode != base::TlsOptions::Mode::off; }

bool must_encrypt(const base::Environment& environment) { return base::tls_options(environment).mode == base::TlsOptions::Mode::required; }

/// Refuses an engine whose connections between hosts are not ours, for UNISONO_TLS=required.
void refuse_unencrypted(const std::string& host, const std::string& device) {
  constexpr std::array ours = {"tcp", "native", "serial"};
  const std::string& other = std::ranges::find(ours, host) == ours.end() ? host : device;
  if (other.empty()) return;
  throw BackendUnavailable(fmt::format("UNISONO_TLS=required, and unisono does not encrypt the connections of backend {} between hosts", other),
                           {.hint = "leave the choice to unisono (auto), ask for tcp, or set UNISONO_TLS=on"});
}

/// Returns the settings that must be the same on all ranks.
std::string overrides() {
  const std::string& network = schedule::network_override();
  const std::size_t most_eager = transport::most_eager_connections(base::Environment::process());
  std::string text = schedule::schedule_override();
  if (!network.empty()) text += "\t" + network;
  if (most_eager != transport::Link::Options().most_eager) text += fmt::format("\teager {}", most_eager);
  return text;
}

std::string asked_key(int rank) { return fmt::format("engines/{}", rank); }
constexpr std::string_view verdict_key = "engines/verdict";

/// Rank 0 calls this with what all ranks have written. It returns "take NAME", or "differ RANK NAME NAME" where a rank asks for another backend than
/// rank 0 (its name, then rank 0's), or "settings RANK" where a rank has others of the settings that must be the same.
std::string compare(const Joining& joining, std::string_view asked) {
  std::vector<std::string> usable;
  for (int r = 0; r < joining.world_size; ++r) {
    const std::string text = joining.store.get(asked_key(r), joining.deadline.left());
    const auto line = std::min(text.find('\n'), text.size());
    if (text.substr(0, line) != asked) return fmt::format("differ {} {} {}", r, text.substr(0, line), asked);
    const auto begin = std::min(line + 1, text.size());
    const auto end = std::min(text.find('\n', begin), text.size());
    usable.push_back(text.substr(begin, end - begin));
    if (text.substr(std::min(end + 1, text.size())) != overrides()) return fmt::format("settings {}", r);
  }
  std::istringstream names(usable.front());
  for (std::string name; names >> name;) {
    if (std::ranges::all_of(usable, [&](const std::string& list) { return list.find(name + " ") != std::string::npos; })) return "take " + name;
  }
  return "take tcp";
}

/// Waits for rank 0's decision. A Timeout names the ranks that have not written their request.
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

/// Agrees on the engine between hosts: every rank writes what it asks for and what it could take, and the first of rank 0's list that all ranks have
/// is taken. Throws InvalidArgument where ranks ask for different backends. Each rank makes four requests to the store.
std::string agree(const Joining& joining, const std::string& asked, const std::string& usable) {
  joining.store.set(asked_key(joining.rank), fmt::format("{}\n{}\n{}", asked, usable, overrides()));
  if (joining.rank == 0) joining.store.set(verdict_key, compare(joining, asked));
  std::istringstream verdict(verdict_of(joining));
  std::string kind, name, of_rank_0;
  int culprit = 0;
  verdict >> kind;
  if (kind == "take" && verdict >> name) return name;
  if (kind == "settings" && verdict >> culprit) {
    throw InvalidArgument(fmt::format("rank {} has another UNISONO_SCHEDULE, UNISONO_NETWORK or UNISONO_MAX_EAGER_CONNECTIONS than rank 0", culprit),
                          {.operation = "initialize", .rank = joining.rank, .culprit = culprit, .hint = "give every rank the same"});
  }
  if (kind != "differ" || !(verdict >> culprit >> name >> of_rank_0)) throw ProtocolError("the store holds a choice of engines that is none of ours");
  throw InvalidArgument(
      fmt::format("rank 0 asks for backend {}, and rank {} for {}", of_rank_0, culprit, name),
      {.operation = "initialize", .rank = joining.rank, .culprit = culprit, .hint = "give every rank the same backend and UNISONO_BACKEND"});
}

/// Says in the log where the request comes from.
std::string describe_request(const InitOptions& options, const base::Environment& environment, const std::string& asked) {
  if (asked == "auto") return "chosen for where the ranks are";
  return engines::parse_request(options.backend).host != "auto" ? "as the program asks"
                                                                : fmt::format("as UNISONO_BACKEND={} asks", *environment.get("UNISONO_BACKEND"));
}

}  // namespace

Selection select_engines(const InitOptions& options, const base::Environment& environment, const Topology& topology, Launcher launcher,
                         const Joining& joining) {
  const int rank = joining.rank, world_size = joining.world_size;
  engines::Request request = engines::parse_request(options.backend, engines::Look::as_a_rank);
  if (request.host == "auto" && request.device.empty()) {
    if (const auto variable = environment.get("UNISONO_BACKEND")) request = engines::parse_request(*variable, engines::Look::as_a_rank);
  }
  Selection selection{.asked = request.host, .host = request.host, .device = request.device};
  const bool between_hosts = topology.machines > 1;
  std::string common;
  if (world_size > 1)
    common = agree(joining, request.host,
                   between_hosts && request.host == "auto" ? usable_between_hosts(launcher, wants_encryption(environment)) : std::string());
  if (selection.host == "auto") {
    selection.host = world_size == 1 ? "serial" : between_hosts ? common : "native";
    if (between_hosts && rank == 0) {
      base::info(fmt::format("{} ranks on {} hosts: backend {} between hosts, native inside them", world_size, topology.machines, selection.host));
    }
  }
  if (selection.device.empty() && request.host == "auto" && world_size > 1 && engines::availability("nccl", engines::Look::as_a_rank).available) {
    selection.device = "nccl";
    selection.device_at_need = true;
  }
  if (between_hosts && must_encrypt(environment)) {
    if (selection.device_at_need) selection.device.clear();
    refuse_unencrypted(selection.host, selection.device);
  }
  engines::maker(selection.host);  // throws where it cannot run here
  base::debug(fmt::format("engine {}{}{} ({})", selection.host, selection.device.empty() ? "" : ", for device memory " + selection.device,
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
  const engines::Request request = engines::parse_request(backend);
  const bool one_host = std::ranges::adjacent_find(hosts, std::not_equal_to<>()) == hosts.end();
  if (!one_host && must_encrypt(base::Environment::process()))
    refuse_unencrypted(request.host == "auto" ? of_world.host : request.host, request.device);
  Selection selection = of_world;
  selection.device_at_need = true;  // as in all groups but the world
  if (!request.device.empty()) selection.device = request.device;
  if (request.host == "auto") {
    if (request.device.empty()) selection.asked = "auto";
    return selection;
  }
  selection.asked = selection.host = request.host;
  selection.device = request.device;
  engines::maker(selection.host);  // throws where it cannot run here
  if (selection.host == "serial" && hosts.size() > 1)
    throw InvalidArgument(fmt::format("backend serial is for one process, and there are {}", hosts.size()));
  if (selection.host == "native" && !one_host) {
    throw BackendUnavailable("the ranks are on several hosts, and backend native serves one",
                             {.hint = "leave the choice to unisono (auto), or ask for tcp, mpi or gloo"});
  }
  return selection;
}

std::string engine_of_group(const Selection& selection, const std::vector<int>& hosts) {
  if (selection.asked != "auto") return selection.host;
  if (hosts.size() == 1) return "serial";
  const bool is_one_host = std::ranges::adjacent_find(hosts, std::not_equal_to<>()) == hosts.end();
  return is_one_host ? "native" : selection.host;
}

std::unique_ptr<group::GroupCore> make_group_core(const Selection& selection, const group::CoreOptions& options) {
  // An empty list of hosts means that all ranks are on one host.
  const std::string name = engine_of_group(selection, options.hosts.empty() ? std::vector<int>(options.global_ranks.size(), 0) : options.hosts);
  group::DeviceEngine device;
  if (!selection.device.empty()) {
    device.make = engines::device_factory(selection.device);
    device.at_need = selection.device_at_need || options.world != nullptr;  // many groups never see device memory
    device.name = selection.asked == "auto" ? selection.device : fmt::format("cpu:{},cuda:{}", name, selection.device);
  }
  return group::make_core(options, engines::maker(name), device);
}

}  // namespace unisono::context
