#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/interfaces.h"
#include "base/socket.h"

namespace unisono::rendezvous {

/// An address with another port.
base::SocketAddress with_port(const base::SocketAddress& address, std::uint16_t port);

/// Datagrams to and from a multicast group: never routed any further than the own network (TTL 1), and heard by the other processes of this host.
class MulticastSocket {
 public:
  static constexpr std::size_t largest = 1200;  ///< bytes of a datagram: fits every network whole

  /// On the interface that the rule wants most; without one, where the system sends such datagrams, else the first that can, else loopback.
  /// InvalidArgument, naming the interfaces there are, where the rule admits none; Unsupported where this host has no multicast of that family.
  MulticastSocket(const base::SocketAddress& group, const std::optional<base::InterfaceRule>& rule);

  /// What others see as the source of our datagrams.
  const base::SocketAddress& own_address() const { return own_; }
  const std::string& interface() const { return interface_; }
  int fd() const { return in_.get(); }

  /// 0, or the errno of what refused: a datagram may be lost in any case.
  int send(std::string_view bytes) const;
  struct Datagram {
    std::string bytes;
    base::SocketAddress source;
  };
  /// Empty: nothing there now. Of one that is longer than `largest` there is one byte more than that.
  std::optional<Datagram> receive() const;

 private:
  base::FileDescriptor in_, out_;
  base::SocketAddress own_;
  std::string interface_;
};

}  // namespace unisono::rendezvous
