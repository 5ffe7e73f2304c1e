#include "rendezvous/multicast_socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using ground::FileDescriptor;
using ground::SocketAddress;

ErrorInfo info(std::string hint = {}) { return {.operation = "initialize", .hint = std::move(hint)}; }

/// One that is up and has an address of the family.
struct Interface {
  std::string name;
  unsigned index = 0;
  bool loopback = false;
  bool multicast = false;
  std::vector<std::string> addresses;
};

std::vector<Interface> interfaces(int family) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) throw Error(fmt::format("the network interfaces of this host: {}", ground::error_text(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, &::freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family || (each->ifa_flags & IFF_UP) == 0) continue;
    auto known = std::ranges::find(all, std::string_view(each->ifa_name), &Interface::name);
    if (known == all.end()) {
      all.push_back(
          {each->ifa_name, ::if_nametoindex(each->ifa_name), (each->ifa_flags & IFF_LOOPBACK) != 0, (each->ifa_flags & IFF_MULTICAST) != 0, {}});
      known = all.end() - 1;
    }
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    known->addresses.push_back(SocketAddress(each->ifa_addr, size).host());
  }
  return all;
}

[[noreturn]] void refuse_system(const SocketAddress& group, std::string_view what) {
  throw Unsupported(fmt::format("this host cannot take part in multicast at {}: {}: {}", describe(group), what, ground::error_text(errno)),
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

/// Where the system's routes lead, if anywhere; the address its datagrams would come from.
std::string routed_source(const SocketAddress& group) {
  const FileDescriptor probe = open_datagram(group);
  if (::connect(probe.get(), group.data(), group.size()) != 0) return {};
  return ground::local_address(probe.get()).host();
}

Interface choose(const SocketAddress& group, const std::optional<std::string>& wanted) {
  const auto all = interfaces(group.family());
  if (wanted) {
    const auto named = std::ranges::find(all, *wanted, &Interface::name);
    if (named != all.end()) return *named;
    std::vector<std::string> names;
    for (const Interface& each : all) names.push_back(each.name);
    throw InvalidArgument(fmt::format("UNISONO_INTERFACE is {}, and this host has no such interface with an {} address", *wanted,
                                      group.family() == AF_INET ? "IPv4" : "IPv6"),
                          info(fmt::format("there are: {}", fmt::join(names, ", "))));
  }
  const std::string source = routed_source(group);
  const auto usable = [](const Interface& each) { return each.multicast && !each.loopback; };
  for (const Interface& each : all) {
    if (usable(each) && std::ranges::find(each.addresses, source) != each.addresses.end()) return each;
  }
  if (const auto first = std::ranges::find_if(all, usable); first != all.end()) return *first;
  if (const auto loopback = std::ranges::find_if(all, &Interface::loopback); loopback != all.end()) return *loopback;
  errno = EADDRNOTAVAIL;
  refuse_system(group, "an interface");
}

// Addresses of link-local scope mean nothing without their interface.
SocketAddress scoped(const SocketAddress& group, unsigned index) {
  if (group.family() != AF_INET6) return group;
  sockaddr_in6 address{};
  std::memcpy(&address, group.data(), sizeof address);
  if (address.sin6_scope_id == 0) address.sin6_scope_id = index;
  return {reinterpret_cast<const sockaddr*>(&address), sizeof address};
}

// To leave by the chosen interface, with TTL 1, and to be heard on this host too.
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

ground::SocketAddress with_port(const SocketAddress& address, std::uint16_t port) {
  sockaddr_storage storage{};
  std::memcpy(&storage, address.data(), address.size());
  if (address.family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  if (address.family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  return {reinterpret_cast<const sockaddr*>(&storage), address.size()};
}

MulticastSocket::MulticastSocket(const SocketAddress& group, const std::optional<std::string>& wanted) {
  const Interface chosen = choose(group, wanted);
  interface_ = chosen.name;
  const SocketAddress address = scoped(group, chosen.index);
  out_ = open_datagram(address);
  if (!prepare_sending(out_, address.family(), chosen.index)) refuse_system(address, chosen.name);
  if (::connect(out_.get(), address.data(), address.size()) != 0) refuse_system(address, chosen.name);
  own_ = ground::local_address(out_.get());
  in_ = open_datagram(address);
  const int on = 1;
  // All processes of this host listen at the same port; bound to the group's address, none hears anything else that comes to it.
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
