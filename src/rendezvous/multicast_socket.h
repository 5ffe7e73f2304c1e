#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/interfaces.h"
#include "base/socket.h"

namespace unisono::rendezvous {

/// Returns an address with another port.
base::SocketAddress with_port(const base::SocketAddress& address, std::uint16_t port);

/// Sends and receives datagrams of a multicast group. They stay in the local network (TTL 1), and other processes of this host receive them.
class MulticastSocket {
 public:
  static constexpr std::size_t largest = 1200;  ///< bytes of a datagram, which fits every network without fragmentation

  /// Uses the interface that the rule prefers; without a rule the one of the system's routes, else the first one that can, else loopback. Throws
  /// InvalidArgument, which names the existing interfaces, where the rule admits none, and Unsupported where this host has no multicast of that
  /// family.
  MulticastSocket(const base::SocketAddress& group, const std::optional<base::InterfaceRule>& rule);

  /// Returns the source address of the datagrams sent.
  const base::SocketAddress& own_address() const { return own_; }
  const std::string& interface() const { return interface_; }
  int fd() const { return in_.get(); }

  /// Returns 0, or the errno of the failed call. A datagram may be lost in any case.
  int send(std::string_view bytes) const;
  struct Datagram {
    std::string bytes;
    base::SocketAddress source;
  };
  /// Returns empty where no datagram has come. A datagram longer than `largest` is cut to one byte more than that.
  std::optional<Datagram> receive() const;

 private:
  base::FileDescriptor in_, out_;
  base::SocketAddress own_;
  std::string interface_;
};

}  // namespace unisono::rendezvous
