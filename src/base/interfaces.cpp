#include "base/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "base/printable.h"
#include "unisono/error.h"

namespace unisono::base {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Returns the bytes of an IPv4 or IPv6 address, in network order.
std::string_view bytes_of(const SocketAddress& address) {
  if (address.family() == AF_INET) {
    return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in*>(address.data())->sin_addr), sizeof(in_addr)};
  }
  return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr), sizeof(in6_addr)};
}

std::optional<SocketAddress> parse_numeric(const std::string& text) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) return SocketAddress(reinterpret_cast<const sockaddr*>(&four), sizeof four);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) return SocketAddress(reinterpret_cast<const sockaddr*>(&six), sizeof six);
  return std::nullopt;
}

/// Returns true for a mistyped address, which no interface has as its name.
bool looks_like_address(std::string_view text) {
  const bool six = std::ranges::count(text, ':') > 1;
  const bool four = text.find_first_not_of("0123456789.") == std::string_view::npos && std::ranges::count(text, '.') > 0;
  return four || (six && text.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos);
}

bool same_beginning(std::string_view a, std::string_view b, unsigned bits) {
  const std::size_t whole = bits / 8;
  if (a.size() != b.size() || a.substr(0, whole) != b.substr(0, whole)) return false;
  const unsigned rest = bits % 8;
  return rest == 0 || ((static_cast<unsigned char>(a[whole]) ^ static_cast<unsigned char>(b[whole])) >> (8 - rest)) == 0;
}

bool is_link_local(const SocketAddress& address) {
  const std::string_view bytes = bytes_of(address);
  if (address.family() == AF_INET) return bytes.starts_with("\xa9\xfe");
  return bytes[0] == '\xfe' && (static_cast<unsigned char>(bytes[1]) & 0xc0U) == 0x80U;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) throw Error(fmt::format("the network interfaces of this host: {}", error_text(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, &::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const SocketAddress address(each->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    all.push_back({each->ifa_name, ::if_nametoindex(each->ifa_name), address, (each->ifa_flags & IFF_LOOPBACK) != 0,
                   (each->ifa_flags & IFF_MULTICAST) != 0, is_link_local(address)});
  }
  return all;
}

std::string describe(const std::vector<InterfaceAddress>& addresses) {
  std::string text;
  for (const InterfaceAddress& each : addresses) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.interface, each.address.host());
  return text.empty() ? "none" : text;
}

InterfaceRule::InterfaceRule(std::string variable, std::string text) : variable_(std::move(variable)), text_(std::move(text)) {
  beginnings_ = variable_ == "NCCL_SOCKET_IFNAME";
  std::string_view rest = trimmed(text_);
  excludes_ = rest.starts_with('^');
  if (excludes_) rest.remove_prefix(1);
  for (;;) {
    const auto comma = rest.find(',');
    items_.push_back(parse(trimmed(rest.substr(0, comma))));
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
  }
}

void InterfaceRule::refuse(std::string_view item, std::string_view why) const {
  throw InvalidArgument(
      fmt::format("{} is \"{}\", and \"{}\" {}", variable_, text_, item, why),
      {.hint = "an interface's name, an address or a network such as 10.0.0.0/8, or several with commas; ^ before the list: all except these"});
}

InterfaceRule::Item InterfaceRule::parse(std::string_view text) const {
  Item item{std::string(text), {}};
  if (text.empty()) refuse(text, "names no interface");
  if (text.find('^') != std::string_view::npos) refuse(text, "has a ^ within the list; it belongs in front of the whole list");
  const auto slash = text.find('/');
  item.network = parse_numeric(std::string(text.substr(0, slash)));
  if (item.network) {
    const unsigned most = static_cast<unsigned>(8 * bytes_of(*item.network).size());
    item.bits = most;
    if (slash == std::string_view::npos) return item;
    item.bits = whole_number<unsigned>(text.substr(slash + 1)).value_or(most + 1);
    if (item.bits > most) refuse(text, fmt::format("is not a network: the length of its prefix is a number from 0 to {}", most));
    return item;
  }
  if (slash != std::string_view::npos || looks_like_address(text)) refuse(text, "is not an address or a network");
  const std::string_view name = text.starts_with('=') ? text.substr(1) : text;
  if (name.empty() || name.size() >= IF_NAMESIZE || name.find(' ') != std::string_view::npos) refuse(text, "cannot be the name of an interface");
  return item;
}

bool InterfaceRule::matches(const Item& item, const InterfaceAddress& address) const {
  if (item.network) {
    return item.network->family() == address.address.family() && same_beginning(bytes_of(*item.network), bytes_of(address.address), item.bits);
  }
  if (item.text.starts_with('=')) return address.interface == std::string_view(item.text).substr(1);
  return beginnings_ ? address.interface.starts_with(item.text) : address.interface == item.text;
}

std::optional<InterfaceRule> InterfaceRule::own(const Environment& environment) {
  const auto text = environment.get("UNISONO_INTERFACE");
  return text ? std::optional<InterfaceRule>(std::in_place, "UNISONO_INTERFACE", *text) : std::nullopt;
}

std::optional<InterfaceRule> InterfaceRule::own_or_others(const Environment& environment) {
  for (const char* variable : {"UNISONO_INTERFACE", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    if (const auto text = environment.get(variable)) return std::optional<InterfaceRule>(std::in_place, variable, *text);
  }
  return std::nullopt;
}

std::vector<InterfaceAddress> InterfaceRule::choose(const std::vector<InterfaceAddress>& addresses) const {
  std::vector<InterfaceAddress> chosen;
  if (excludes_) {
    std::ranges::copy_if(addresses, std::back_inserter(chosen), [&](const InterfaceAddress& address) {
      return std::ranges::none_of(items_, [&](const Item& item) { return matches(item, address); });
    });
    // A list of excluded interfaces does not mean that loopback is wanted: loopback comes last.
    std::ranges::stable_partition(chosen, [](const InterfaceAddress& address) { return !address.loopback; });
  } else {
    for (const Item& item : items_) {
      for (const InterfaceAddress& address : addresses) {
        const bool known = std::ranges::any_of(chosen, [&](const InterfaceAddress& other) {
          return other.interface == address.interface && bytes_of(other.address) == bytes_of(address.address);
        });
        if (!known && matches(item, address)) chosen.push_back(address);
      }
    }
  }
  if (!chosen.empty()) return chosen;
  for (const Item& item : items_) {
    const std::string name = item.text.starts_with('=') ? item.text.substr(1) : item.text;
    if (!excludes_ && !item.network && ::if_nametoindex(name.c_str()) != 0) {
      throw InvalidArgument(fmt::format("{} is \"{}\", and the interface {} is down or has no address", variable_, text_, name),
                            {.hint = fmt::format("up, with an address, are: {}", describe(addresses))});
    }
  }
  throw InvalidArgument(fmt::format("{} is \"{}\", and {} of this host's interfaces matches it", variable_, text_, "none"),
                        {.hint = fmt::format("there are: {}", describe(addresses))});
}

}  // namespace unisono::base
