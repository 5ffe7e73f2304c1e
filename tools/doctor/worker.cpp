#include "doctor/worker.h"

#include <chrono>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "base/host.h"
#include "base/version.h"
#include "doctor/host_checks.h"
#include "doctor/peer_probe.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto patience = std::chrono::seconds(5);

Json json_of(const Findings& findings) {
  Json all = Json::array();
  for (const Finding& each : findings)
    all.push_back(
        {{"kind", each.kind == Finding::Kind::wrong ? "wrong" : "remark"}, {"about", each.about}, {"text", each.text}, {"advice", each.advice}});
  return all;
}

/// Returns this host's address on the way by which ssh has come here, which the others are likely to reach as well.
std::optional<base::SocketAddress> route_of_ssh(const base::Environment& environment) {
  std::istringstream fields(environment.get("SSH_CONNECTION").value_or(""));
  std::string client, port, server;
  fields >> client >> port >> server;
  if (!base::is_numeric(server)) return std::nullopt;
  return base::resolve(server, 0).front();
}

class Worker {
 public:
  Json answer(const Json& request) {
    const std::string what = request.at("do");
    if (what == "clock") return {{"clock", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()}};
    if (what == "measure") return measure(request);
    return inspect(request);
  }

 private:
  Json inspect(const Json& request) {
    const base::Environment& environment = base::Environment::process();
    std::optional<base::SocketAddress> route;
    if (request.at("by ssh")) route = route_of_ssh(environment);
    else if (const std::string seen = request.at("seen as"); base::is_numeric(seen)) route = base::resolve(seen, 0).front();
    Json facts = inspect_host(environment, route, Reach::several_hosts, request.at("ranks"));
    const std::string address = facts.at("address");
    if (address.empty()) return facts;
    try {
      server_ = std::make_unique<ProbeServer>(address, request.at("secret"));
      facts["port"] = server_->port();
    } catch (const Error& error) {
      facts["findings"].push_back(
          {{"kind", "wrong"}, {"about", "port"}, {"text", error.message()}, {"advice", "UNISONO_INTERFACE chooses another address"}});
    }
    return facts;
  }

  static Json measure(const Json& request) {
    const Probe result = probe(request.at("address"), request.at("port"), request.at("secret"), patience);
    return {{"outcome", static_cast<int>(result.outcome)},
            {"why", result.why},
            {"latency_us", result.latency_us},
            {"mebibytes_per_s", result.mebibytes_per_s}};
  }

  std::unique_ptr<ProbeServer> server_;
};

}  // namespace

Json inspect_host(const base::Environment& environment, const std::optional<base::SocketAddress>& route, Reach reach, int ranks) {
  Findings findings = check_network(environment, route, reach);
  for (Finding& each : check_host(ranks)) findings.push_back(std::move(each));
  const std::string address = reach == Reach::several_hosts ? address_of_ranks(environment, route) : std::string();
  const std::string interface = interface_of(address);
  return {{"name", base::host_name()},    {"version", base::to_string(base::library_version())},
          {"address", address},           {"interface", interface},
          {"mtu", mtu_of(interface)},     {"port", 0},
          {"findings", json_of(findings)}};
}

int serve_as_doctor() {
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line, nullptr, false);
    if (request.is_discarded()) return 1;
    std::cout << worker.answer(request).dump() << std::endl;
  }
  return 0;
}

}  // namespace unisono::tools
