#include "rendezvous/multicast_socket.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "rendezvous/record.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::FileDescriptor;
using base::InterfaceAddress;
using base::SocketAddress;

[[noreturn]] void refuse_system(const SocketAddress& group, std::string_view what) {
  throw Unsupported(fmt::format("this host cannot take part in multicast at {}: {}: {}", describe(group), what, base::error_text(errno)),
                    info("use tcp:// with rank 0's own address, or file://"));
}

template <class T>
bool set(const FileDescriptor& fd, int level, int option, const T& value) {
  return ::setsockopt(fd.get(), level, option, &value, sizeof value) == 0;
}

FileDescriptor open_datagram(const SocketAddress& group) {
  FileDescriptor fd(::socket(group.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) refuse_system(group, "a socket");
  return fd;
}

/// Returns the source address of datagrams by the system's routes; empty: there is no route.
std::string routed_source(const SocketAddress& group) {
  const FileDescriptor probe = open_datagram(group);
  if (::connect(probe.get(), group.data(), group.size()) != 0) return {};
  return base::local_address(probe.get()).host();
}

InterfaceAddress choose(const SocketAddress& group, const std::optional<base::InterfaceRule>& rule) {
  auto all = base::interface_addresses();
  std::erase_if(all, [&](const InterfaceAddress& each) { return each.address.family() != group.family(); });
  if (rule) return rule->choose(all).front();
  const std::string source = routed_source(group);
  const auto usable = [](const InterfaceAddress& each) { return each.multicast && !each.loopback; };
  const auto routed = std::ranges::find_if(all, [&](const auto& each) { return usable(each) && each.address.host() == source; });
  if (routed != all.end()) return *routed;
  if (const auto first = std::ranges::find_if(all, usable); first != all.end()) return *first;
  if (const auto loopback = std::ranges::find_if(all, &InterfaceAddress::loopback); loopback != all.end()) return *loopback;
  errno = EADDRNOTAVAIL;
  refuse_system(group, "an interface");
}

// Adds the interface to an IPv6 address, since link-local addresses need one.
SocketAddress scoped(const SocketAddress& group, unsigned index) {
  if (group.family() != AF_INET6) return group;
  sockaddr_in6 address{};
  std::memcpy(&address, group.data(), sizeof address);
  if (address.sin6_scope_id == 0) address.sin6_scope_id = index;
  return {reinterpret_cast<const sockaddr*>(&address), sizeof address};
}

// Makes datagrams leave by the chosen interface, with TTL 1, and reach this host too.
bool prepare_sending(const FileDescriptor& out, int family, unsigned index) {
  const int one = 1;
  if (family == AF_INET) {
    ip_mreqn where{};
    where.imr_ifindex = static_cast<int>(index);
    return set(out, IPPROTO_IP, IP_MULTICAST_IF, where) && set(out, IPPROTO_IP, IP_MULTICAST_TTL, one) &&
           set(out, IPPROTO_IP, IP_MULTICAST_LOOP, one);
  }
  return set(out, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(index)) && set(out, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, one) &&
         set(out, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, one);
}

bool join_group(const FileDescriptor& in, const SocketAddress& group, unsigned index) {
  if (group.family() == AF_INET) {
    ip_mreqn membership{};
    membership.imr_multiaddr = reinterpret_cast<const sockaddr_in*>(group.data())->sin_addr;
    membership.imr_ifindex = static_cast<int>(index);
    return set(in, IPPROTO_IP, IP_ADD_MEMBERSHIP, membership);
  }
  ipv6_mreq membership{};
  membership.ipv6mr_multiaddr = reinterpret_cast<const sockaddr_in6*>(group.data())->sin6_addr;
  membership.ipv6mr_interface = index;
  return set(in, IPPROTO_IPV6, IPV6_JOIN_GROUP, membership);
}

}  // namespace

base::SocketAddress with_port(const SocketAddress& address, std::uint16_t port) {
  sockaddr_storage storage{};
  std::memcpy(&storage, address.data(), address.size());
  if (address.family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  if (address.family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  return {reinterpret_cast<const sockaddr*>(&storage), address.size()};
}

MulticastSocket::MulticastSocket(const SocketAddress& group, const std::optional<base::InterfaceRule>& rule) {
  const InterfaceAddress chosen = choose(group, rule);
  interface_ = chosen.interface;
  const SocketAddress address = scoped(group, chosen.index);
  out_ = open_datagram(address);
  if (!prepare_sending(out_, address.family(), chosen.index)) refuse_system(address, chosen.interface);
  if (::connect(out_.get(), address.data(), address.size()) != 0) refuse_system(address, chosen.interface);
  own_ = base::local_address(out_.get());
  in_ = open_datagram(address);
  const int on = 1;
  // All processes of this host listen at the same port. Bound to the group's address, they receive only datagrams for it.
  if (!set(in_, SOL_SOCKET, SO_REUSEADDR, on) || ::bind(in_.get(), address.data(), address.size()) != 0) refuse_system(address, "listening");
  if (!join_group(in_, address, chosen.index)) refuse_system(address, "joining the group");
}

int MulticastSocket::send(std::string_view bytes) const { return ::send(out_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 ? errno : 0; }

std::optional<MulticastSocket::Datagram> MulticastSocket::receive() const {
  std::array<char, largest + 1> buffer;
  for (;;) {
    sockaddr_storage source{};
    socklen_t size = sizeof source;
    const ssize_t n = ::recvfrom(in_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&source), &size);
    if (n >= 0) return Datagram{{buffer.data(), static_cast<std::size_t>(n)}, {reinterpret_cast<const sockaddr*>(&source), size}};
    if (errno != EINTR) return std::nullopt;
  }
}

}  // namespace unisono::rendezvous
