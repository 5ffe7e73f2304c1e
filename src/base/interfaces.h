#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/socket.h"

namespace unisono::base {

/// One address of a network interface that is up. Port 0.
struct InterfaceAddress {
  std::string interface = {};
  unsigned index = 0;
  SocketAddress address = {};
  bool loopback = false, multicast = false;  ///< of the interface
  bool link_local = false;                   ///< means nothing on another host
};

/// Of IPv4 and IPv6, as the system lists them.
std::vector<InterfaceAddress> interface_addresses();
/// "lo (127.0.0.1), eth0 (10.0.0.7)"
std::string describe(const std::vector<InterfaceAddress>& addresses);

/// Which interfaces are meant. A list, separated by commas, of interface names, addresses (10.0.0.7, fd00::7) and networks (10.0.0.0/8, fd00::/8), of
/// which the first that is there is wanted most; a ^ in front of the list means all but these. NCCL's variable names beginnings of
/// interface names, and whole names after a =; = is understood, and means nothing more, in the others.
class InterfaceRule {
 public:
  /// InvalidArgument, naming the variable, for a text that is no such list.
  InterfaceRule(std::string variable, std::string text);
  /// From UNISONO_INTERFACE.
  static std::optional<InterfaceRule> own(const Environment& environment);
  /// The same, else from GLOO_SOCKET_IFNAME, else from NCCL_SOCKET_IFNAME.
  static std::optional<InterfaceRule> own_or_others(const Environment& environment);

  /// Those that it admits, the one that is wanted most first. InvalidArgument, naming the variable and what is there, where there are none.
  std::vector<InterfaceAddress> choose(const std::vector<InterfaceAddress>& addresses) const;

 private:
  struct Item {
    std::string text;
    std::optional<SocketAddress> network;  ///< empty: a name
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
