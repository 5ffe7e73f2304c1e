#include "doctor/network_checks.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/host.h"
#include "base/interfaces.h"
#include "rendezvous/own_address.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using base::Environment;
using base::InterfaceAddress;
using Kind = Finding::Kind;

constexpr std::array<std::string_view, 10> of_containers = {"docker", "br-", "bridge", "virbr", "veth", "lxcbr", "lxdbr", "cni", "flannel", "podman"};

/// Bridges of containers and virtual machines have the same addresses on every host, and lead to none.
bool leads_nowhere(const std::string& interface) {
  struct stat about {};
  if (::stat(fmt::format("/sys/class/net/{}/bridge", interface).c_str(), &about) == 0) return true;
  return std::ranges::any_of(of_containers, [&](std::string_view begin) { return interface.starts_with(begin); });
}

/// Returns the addresses by which other hosts may reach this one.
std::vector<InterfaceAddress> usable() {
  auto all = base::interface_addresses();
  std::erase_if(all, [](const InterfaceAddress& each) { return each.loopback || each.link_local || leads_nowhere(each.interface); });
  return all;
}

std::string choose_another(const std::vector<InterfaceAddress>& others) {
  if (others.empty()) return "this host has no interface that leads to others: connect one (ip address)";
  return fmt::format("UNISONO_INTERFACE={} chooses another one (there are: {})", others.front().interface, base::describe(others));
}

void check_address(const std::string& address, const std::string& what, Findings& findings) {
  const std::string interface = interface_of(address);
  const bool loopback = base::is_numeric(address) && base::resolve(address, 0).front().is_loopback();
  if (loopback) {
    findings.push_back(
        {Kind::wrong, "interface", fmt::format("{} {}, a loopback address, which no other host reaches", what, address), choose_another(usable())});
  } else if (!interface.empty() && leads_nowhere(interface)) {
    findings.push_back({Kind::wrong, "interface",
                        fmt::format("{} {} of {}, a bridge for containers, which leads to no other host", what, address, interface),
                        choose_another(usable())});
  }
}

/// Returns the addresses of a name; empty where it has none, with a finding.
std::vector<base::SocketAddress> look_up(const std::string& name, const std::string& what, Kind kind, Findings& findings) {
  try {
    return base::resolve(name, 0);
  } catch (const InvalidArgument& error) {
    findings.push_back({kind, "name", fmt::format("{} {} does not resolve: {}", what, name, error.message()),
                        fmt::format("add it to /etc/hosts, or to the name server: \"ADDRESS {}\"", name)});
    return {};
  }
}

void check_names(const Environment& environment, Reach reach, Findings& findings) {
  const bool several = reach == Reach::several_hosts;
  const auto own = look_up(base::host_name(), "this host's own name", several ? Kind::wrong : Kind::remark, findings);
  if (several && !own.empty()) {
    const auto interface = interface_of(own.front().host());
    const bool useless = own.front().is_loopback() || (!interface.empty() && leads_nowhere(interface));
    if (useless) {
      findings.push_back({Kind::remark, "name",
                          fmt::format("this host's own name {} leads to {}{}, which no other host reaches", base::host_name(), own.front().host(),
                                      interface.empty() ? "" : " of " + interface),
                          "name host 0 by an address (--master-addr), or correct /etc/hosts; unisono's own ranks use addresses"});
    }
  }
  if (const auto master = environment.get("MASTER_ADDR")) {
    const auto addresses = look_up(*master, "MASTER_ADDR", Kind::wrong, findings);
    if (several && !addresses.empty()) check_address(addresses.front().host(), fmt::format("MASTER_ADDR {} is", *master), findings);
  }
}

}  // namespace

std::string interface_of(const std::string& address) {
  for (const InterfaceAddress& each : base::interface_addresses())
    if (each.address.host() == address) return each.interface;
  return {};
}

int mtu_of(const std::string& interface) {
  ifreq request{};
  if (interface.empty() || interface.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  const base::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket && ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

std::string address_of_ranks(const Environment& environment, const std::optional<base::SocketAddress>& route) {
  try {
    return rendezvous::own_address(environment, route, false);
  } catch (const InvalidArgument&) {  // check_network says it
    return {};
  }
}

Findings check_network(const Environment& environment, const std::optional<base::SocketAddress>& route, Reach reach) {
  Findings findings;
  try {
    const std::string address = rendezvous::own_address(environment, route, reach == Reach::this_host);
    if (reach == Reach::several_hosts) check_address(address, "the ranks here would be reached at", findings);
  } catch (const InvalidArgument& error) {
    const std::string hint = error.info().hint;
    findings.push_back({Kind::wrong, "interface", error.message(), hint.empty() ? choose_another(usable()) : hint});
  }
  check_names(environment, reach, findings);
  return findings;
}

}  // namespace unisono::tools
