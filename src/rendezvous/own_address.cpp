#include "rendezvous/own_address.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/interfaces.h"
#include "base/log.h"
#include "rendezvous/record.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::Environment;
using base::InterfaceAddress;
using base::InterfaceRule;
using base::SocketAddress;

bool is(const InterfaceAddress& own, const SocketAddress& address) {
  return own.address.family() == address.family() && own.address.host() == address.host();
}

/// Returns the addresses that other hosts can use as well.
std::vector<InterfaceAddress> own_addresses() {
  auto all = base::interface_addresses();
  std::erase_if(all, [](const InterfaceAddress& each) { return each.link_local; });
  return all;
}

/// Returns, among the addresses that the rule admits, the one on the way to the store, else one of its family, else the first.
std::string by_rule(const InterfaceRule& rule, const std::optional<SocketAddress>& route) {
  const auto admitted = rule.choose(own_addresses());
  if (route) {
    const auto same = std::ranges::find_if(admitted, [&](const auto& each) { return is(each, *route); });
    if (same != admitted.end()) return same->address.host();
    const auto family = std::ranges::find_if(admitted, [&](const auto& each) { return each.address.family() == route->family(); });
    if (family != admitted.end()) return family->address.host();
  }
  return admitted.front().address.host();
}

constexpr std::uint16_t discard_port = 9;  // any port will do: nothing is sent

/// Returns the source address that the system's routes choose for a distant host; nothing is sent.
std::string by_routes(const std::vector<InterfaceAddress>& own) {
  for (const char* far_away : {"192.0.2.1", "2001:db8::1"}) {  // addresses for documentation
    const SocketAddress address = base::resolve(far_away, discard_port).front();
    const base::FileDescriptor probe(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!probe || ::connect(probe.get(), address.data(), address.size()) != 0) continue;
    const SocketAddress source = base::local_address(probe.get());
    if (std::ranges::any_of(own, [&](const auto& each) { return is(each, source); })) return source.host();
  }
  return {};
}

std::string chosen(std::string address, std::string_view why) {
  base::debug(fmt::format("address {}: {}", address, why));
  return address;
}

[[noreturn]] void refuse_loopback(const InterfaceRule& rule, const std::string& address) {
  auto others = own_addresses();
  std::erase_if(others, [](const InterfaceAddress& each) { return each.loopback; });
  throw InvalidArgument(
      fmt::format("{} chooses {}, a loopback address, which no other host reaches, and the job has several hosts", rule.said(), address),
      info(fmt::format("choose another interface, or none (of this host: {})", describe(others))));
}

}  // namespace

std::string own_address(const Environment& environment, const std::optional<SocketAddress>& route, bool one_network) {
  if (const auto rule = InterfaceRule::own(environment)) return chosen(by_rule(*rule, route), "by UNISONO_INTERFACE");
  if (one_network) {
    return chosen(route && route->family() == AF_INET6 && route->is_loopback() ? "::1" : "127.0.0.1", "all ranks share one network");
  }
  if (const auto rule = InterfaceRule::own_or_others(environment))
    return chosen(by_rule(*rule, route), "by the interface variable of another library");
  if (route && !route->is_loopback()) return chosen(route->host(), "the job's store is reached from it");
  const auto own = own_addresses();
  if (std::string address = by_routes(own); !address.empty()) return chosen(std::move(address), "the system's routes choose it");
  const auto first = std::ranges::find_if(own, [](const auto& each) { return !each.loopback; });
  if (first != own.end()) return chosen(first->address.host(), "the first of this host");
  throw InvalidArgument("the ranks are on several hosts, and this one has no address by which the others could reach it",
                        info(fmt::format("there are: {}", describe(own))));
}

void check_for_other_hosts(const std::string& address, const Environment& environment) {
  const auto rule = InterfaceRule::own_or_others(environment);
  if (rule && base::is_numeric(address) && base::resolve(address, 0).front().is_loopback()) refuse_loopback(*rule, address);
}

std::vector<SocketAddress> addresses_to_listen_on(const std::string& host, const std::vector<SocketAddress>& resolved,
                                                  const Environment& environment) {
  const auto rule = InterfaceRule::own_or_others(environment);
  if (!rule || base::is_numeric(host)) return resolved;
  const auto own = base::interface_addresses();
  std::vector<SocketAddress> here;
  for (const SocketAddress& address : resolved) {
    if (std::ranges::any_of(own, [&](const auto& each) { return is(each, address); })) here.push_back(address);
  }
  if (here.empty()) return resolved;  // the error is listen's
  std::vector<SocketAddress> admitted;
  const auto chosen = rule->choose(own_addresses());
  for (const SocketAddress& address : here) {
    if (std::ranges::any_of(chosen, [&](const auto& each) { return is(each, address); })) admitted.push_back(address);
  }
  const bool all_loopback = std::ranges::all_of(resolved, [](const auto& address) { return address.is_loopback(); });
  if (admitted.empty() && chosen.front().loopback && !all_loopback) refuse_loopback(*rule, chosen.front().address.host());
  if (admitted.empty()) admitted.push_back(chosen.front().address.with_port(resolved.front().port()));
  return admitted;
}

void check_reachable(const std::string& host, const std::vector<SocketAddress>& resolved) {
  if (host == "localhost" || base::is_numeric(host)) return;  // an explicit loopback address is intended: all ranks may be on one host
  if (!std::ranges::all_of(resolved, [](const auto& address) { return address.is_loopback(); })) return;
  auto others = own_addresses();
  std::erase_if(others, [](const auto& each) { return each.loopback; });
  throw InvalidArgument(
      fmt::format("the job has several hosts, and its ranks are to meet at {}, here {}, which is a loopback address: no other host reaches it", host,
                  resolved.front().host()),
      info(fmt::format("give an address of rank 0's host that the others reach (of this host: {}), or correct /etc/hosts", describe(others))));
}

}  // namespace unisono::rendezvous
