#include "context/engines.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/tls.h"
#include "engines/registry.h"
#include "schedule/selection.h"
#include "store/requests.h"
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

/// The request of a rank, which is a line of the store for each member.
struct Asked {
  std::string backend;
  std::string usable;    // the engines that `auto` could take between hosts
  std::string device;    // empty: the rank has none; else its address, behind a mark that says whether it may be shared
  std::string settings;  // those that must be the same on all ranks
  std::string text() const { return fmt::format("{}\n{}\n{}\n{}", backend, usable, device, settings); }
  static Asked of_text(const std::string& text) {
    std::istringstream lines(text);
    Asked asked;
    for (std::string* const line : {&asked.backend, &asked.usable, &asked.device, &asked.settings}) std::getline(lines, *line);
    return asked;
  }
};

constexpr char alone_mark = '1', shared_mark = '*';

std::string text_of(const OwnDevice& device) { return (device.may_be_shared ? shared_mark : alone_mark) + device.address; }

/// Compares the devices of the ranks. Returns "" where no rank has one, or each has one that it may use with NCCL or its like; "none RANK" where a
/// rank has none; "shared RANK RANK ADDRESS" where two have the same and may not share it.
std::string compare_devices(const std::vector<Asked>& ranks, const std::vector<int>& hosts) {
  if (std::ranges::all_of(ranks, [](const Asked& rank) { return rank.device.empty(); })) return {};
  std::map<std::pair<int, std::string>, std::size_t> first;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::string& device = ranks[r].device;
    if (device.empty()) return fmt::format("none {}", r);
    const std::string address = device.substr(1);
    if (address.empty()) continue;
    const auto [found, is_new] = first.emplace(std::pair(hosts[r], address), r);
    const bool may_share = device.front() == shared_mark && ranks[found->second].device.front() == shared_mark;
    if (!is_new && !may_share) return fmt::format("shared {} {} {}", found->second, r, address);
  }
  return {};
}

/// Rank 0 calls this with what all ranks have written. It returns "take NAME", and behind that what compare_devices says; or "differ RANK NAME NAME"
/// where a rank asks for another backend than rank 0 (its name, then rank 0's), or "settings RANK" where a rank has others of the settings that must
/// be the same.
std::string compare(const Joining& joining, const Asked& own, const std::vector<int>& hosts) {
  std::vector<std::string> keys;
  for (int r = 0; r < joining.world_size; ++r) keys.push_back(asked_key(r));
  joining.store.wait(keys, joining.deadline.left());
  const auto texts = store::try_get_all(joining.store, keys);
  std::vector<Asked> ranks;
  for (int r = 0; r < joining.world_size; ++r) {
    ranks.push_back(Asked::of_text(texts[static_cast<std::size_t>(r)].value_or("")));
    if (ranks.back().backend != own.backend) return fmt::format("differ {} {} {}", r, ranks.back().backend, own.backend);
    if (ranks.back().settings != own.settings) return fmt::format("settings {}", r);
  }
  std::string taken = "tcp";
  std::istringstream names(ranks.front().usable);
  for (std::string name; names >> name;) {
    if (std::ranges::any_of(ranks, [&](const Asked& rank) { return rank.usable.find(name + " ") == std::string::npos; })) continue;
    taken = name;
    break;
  }
  const std::string devices = compare_devices(ranks, hosts);
  return fmt::format("take {}{}{}", taken, devices.empty() ? "" : " ", devices);
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

/// The result of the agreement.
struct Agreed {
  std::string host;                         // the engine between hosts
  std::optional<int> without_device;        // a rank that has none
  std::optional<std::pair<int, int>> pair;  // two ranks that share a device, and may not
  std::string address;                      // of that device
};

/// Agrees on the engine between hosts and on whether the devices can be used: every rank writes what it asks for and what it could take, and the
/// first of rank 0's list that all ranks have is taken. Throws InvalidArgument where ranks ask for different backends. Each rank makes four requests
/// to the store.
Agreed agree(const Joining& joining, const Asked& asked, const std::vector<int>& hosts) {
  joining.store.set(asked_key(joining.rank), asked.text());
  if (joining.rank == 0) joining.store.set(verdict_key, compare(joining, asked, hosts));
  std::istringstream verdict(verdict_of(joining));
  std::string kind, name, of_rank_0;
  int culprit = 0;
  verdict >> kind;
  if (kind == "take" && verdict >> name) {
    Agreed agreed{.host = name, .without_device = {}, .pair = {}, .address = {}};
    int other = 0;
    verdict >> kind >> culprit;
    if (kind == "none") agreed.without_device = culprit;
    if (kind == "shared" && verdict >> other >> agreed.address) agreed.pair = {culprit, other};
    return agreed;
  }
  if (kind == "settings" && verdict >> culprit) {
    throw InvalidArgument(fmt::format("rank {} has another UNISONO_SCHEDULE, UNISONO_NETWORK or UNISONO_MAX_EAGER_CONNECTIONS than rank 0", culprit),
                          {.operation = "initialize", .rank = joining.rank, .culprit = culprit, .hint = "give every rank the same"});
  }
  if (kind != "differ" || !(verdict >> culprit >> name >> of_rank_0))
    throw ProtocolError("the store holds a choice of engines that unisono has not written");
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

/// Drops an engine of devices that `auto` has chosen where the ranks cannot use it, and refuses one that was asked for.
void judge_devices(Selection& selection, const Agreed& agreed, const Joining& joining) {
  if (selection.device.empty()) return;
  const std::string engine = selection.device;
  if (agreed.pair) {
    const auto [a, b] = *agreed.pair;
    const std::string shared = fmt::format("ranks {} and {} share a device ({})", a, b, agreed.address);
    const std::string remedy = "with NCCL 2.30 or newer, NCCL_MULTI_RANK_GPU_ENABLE=1 on all ranks lets them share it";
    if (!selection.device_at_need) {
      throw BackendUnavailable(fmt::format("backend {} cannot be used: {}", engine, shared),
                               {.operation = "initialize",
                                .rank = joining.rank,
                                .culprit = b,
                                .hint = fmt::format("auto carries device memory through the host's; {}", remedy)});
    }
    if (joining.rank == 0) base::warn(fmt::format("{}: device memory goes through the host's memory, not through {}; {}", shared, engine, remedy));
    selection.device.clear();
  } else if (agreed.without_device && selection.device_at_need) {
    base::debug(fmt::format("rank {} has no device, so {} is not taken", *agreed.without_device, engine));
    selection.device.clear();
  }
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
  if (selection.device.empty() && request.host == "auto" && engines::availability("nccl", engines::Look::as_a_rank).available) {
    selection.device = "nccl";
    selection.device_at_need = true;
  }
  Asked asked{.backend = request.host, .usable = {}, .device = {}, .settings = overrides()};
  if (between_hosts && request.host == "auto") asked.usable = usable_between_hosts(launcher, wants_encryption(environment));
  if (!selection.device.empty()) {
    const OwnDevice own = engines::own_device(selection.device, joining.local_rank);
    selection.own_device = own.device;
    asked.device = text_of(own);
  }
  std::string common;
  if (world_size > 1) {
    const Agreed agreed = agree(joining, asked, topology.hosts);
    common = agreed.host;
    judge_devices(selection, agreed, joining);
  }
  if (selection.host == "auto") {
    selection.host = world_size == 1 ? "serial" : between_hosts ? common : "native";
    if (between_hosts && rank == 0) {
      base::info(fmt::format("{} ranks on {} hosts: backend {} between hosts, native inside them", world_size, topology.machines, selection.host));
    }
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
    throw BackendUnavailable(
        fmt::format("the ranks are on {} hosts, and backend native serves one: {}", topology.machines, topology.describe_hosts()),
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
