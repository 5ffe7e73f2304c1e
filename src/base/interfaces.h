#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/socket.h"

namespace unisono::base {

/// An address of a network interface that is up. The port is 0.
struct InterfaceAddress {
  std::string interface = {};
  unsigned index = 0;
  SocketAddress address = {};
  bool loopback = false, multicast = false;  ///< of the interface
  bool link_local = false;                   ///< link-local addresses mean nothing on another host
};

/// Returns the IPv4 and IPv6 addresses, in the system's order.
std::vector<InterfaceAddress> interface_addresses();
/// "lo (127.0.0.1), eth0 (10.0.0.7)"
std::string describe(const std::vector<InterfaceAddress>& addresses);

/// Selects interfaces by a list, separated by commas, of interface names, addresses (10.0.0.7, fd00::7) and networks (10.0.0.0/8, fd00::/8). The
/// first item that exists is preferred; a ^ in front of the list means all but these. In NCCL's variable a name matches the beginning of interface
/// names, and a whole name after a =; in the other variables = is accepted and changes nothing.
class InterfaceRule {
 public:
  /// Throws InvalidArgument, which names the variable, for a text that is no such list.
  InterfaceRule(std::string variable, std::string text);
  /// Reads UNISONO_INTERFACE.
  static std::optional<InterfaceRule> own(const Environment& environment);
  /// Reads UNISONO_INTERFACE, else GLOO_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME.
  static std::optional<InterfaceRule> own_or_others(const Environment& environment);

  /// Returns the addresses that the rule admits, the preferred one first. Throws InvalidArgument, which names the variable and the addresses there
  /// are, where it admits none.
  std::vector<InterfaceAddress> choose(const std::vector<InterfaceAddress>& addresses) const;
  /// Returns the variable with its text: "UNISONO_INTERFACE=eth0".
  std::string said() const { return variable_ + "=" + text_; }

 private:
  struct Item {
    std::string text;
    std::optional<SocketAddress> network;  ///< empty: the item is a name
    unsigned bits = 0;
  };
  Item parse(std::string_view text) const;
  bool matches(const Item& item, const InterfaceAddress& address) const;
  [[noreturn]] void refuse(std::string_view item, std::string_view why) const;

  std::string variable_, text_;
  bool excludes_ = false, beginnings_ = false;
  std::vector<Item> items_;
};

}  // namespace unisono::base
