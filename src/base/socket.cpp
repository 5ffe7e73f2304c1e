#include "base/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/log.h"
#include "base/switches.h"
#include "base/thread.h"
#include "unisono/error.h"

namespace unisono::base {
namespace {

const sockaddr_in& as_v4(const SocketAddress& address) { return *reinterpret_cast<const sockaddr_in*>(address.data()); }
const sockaddr_in6& as_v6(const SocketAddress& address) { return *reinterpret_cast<const sockaddr_in6*>(address.data()); }

[[noreturn]] void fail(std::string_view what) { throw Error(fmt::format("{}: {}", what, error_text(errno))); }

/// The resolver's answer for a name.
struct Lookup {
  std::vector<SocketAddress> addresses;
  int code = 0;  // result of getaddrinfo; 0: there are addresses
  int error = 0;

  std::string why_not(const std::string& host) const {
    return fmt::format("no address is known for the host \"{}\": {}", host, code == EAI_SYSTEM ? error_text(error) : ::gai_strerror(code));
  }
  bool may_be_known_later() const { return code == EAI_NONAME || code == EAI_AGAIN || code == EAI_NODATA; }
};

/// Returns an address in brackets, as URLs have it, without them.
std::string without_brackets(std::string_view host) {
  const bool in_brackets = host.starts_with('[') && host.ends_with(']') && host.find(':') != std::string_view::npos;
  return std::string(in_brackets ? host.substr(1, host.size() - 2) : host);
}

Lookup look_up(const std::string& given, std::uint16_t port) {
  const std::string host = without_brackets(given);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST;
  const std::string service = std::to_string(port);
  addrinfo* list = nullptr;
  Lookup found;
  found.code = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &list);
  if (found.code == EAI_NONAME) {
    hints.ai_flags = AI_NUMERICSERV;
    found.code = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &list);
  }
  found.error = errno;
  // The name of this host needs no file and no server (RFC 6761), and containers often have neither.
  if (found.code != 0 && host == "localhost") return look_up("127.0.0.1", port);
  if (found.code != 0) return found;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) found.addresses.emplace_back(each->ai_addr, each->ai_addrlen);
  return found;
}

FileDescriptor open_stream(int family) {
  FileDescriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  fd.keep_from_children();
  return fd;
}

/// Returns an option of a socket; empty, with errno: there is none.
template <class T>
std::optional<T> option_of(int fd, int option) {
  T value{};
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? std::optional(value) : std::nullopt;
}

SocketAddress address_by(int (*ask)(int, sockaddr*, socklen_t*), int fd, std::string_view what) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (ask(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) fail(what);
  return {reinterpret_cast<sockaddr*>(&storage), size};
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size) : size_(size) {
  if (size > sizeof storage_) throw InvalidArgument("a socket address is longer than the system knows");
  std::memcpy(&storage_, address, size);
}

SocketAddress SocketAddress::abstract_unix(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) throw InvalidArgument("a local socket's name is too long: " + std::string(name));
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(as_v4(*this).sin_port);
  if (family() == AF_INET6) return ntohs(as_v6(*this).sin6_port);
  return 0;
}

std::string SocketAddress::host_for_others() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET) return ::inet_ntop(AF_INET, &as_v4(*this).sin_addr, text, sizeof text);
  if (family() == AF_INET6) return ::inet_ntop(AF_INET6, &as_v6(*this).sin6_addr, text, sizeof text);
  return {};
}

std::string SocketAddress::host() const {
  std::string text = host_for_others();
  if (!is_link_local() || lacks_interface()) return text;
  char interface[IF_NAMESIZE] = {};
  const unsigned index = as_v6(*this).sin6_scope_id;
  return text + '%' + (::if_indextoname(index, interface) != nullptr ? std::string(interface) : std::to_string(index));
}

SocketAddress SocketAddress::as_seen_from(const SocketAddress& own) const {
  SocketAddress address = *this;
  if (lacks_interface() && own.is_link_local()) {
    reinterpret_cast<sockaddr_in6&>(address.storage_).sin6_scope_id = as_v6(own).sin6_scope_id;
  }
  return address;
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  SocketAddress address = *this;
  if (family() == AF_INET) reinterpret_cast<sockaddr_in&>(address.storage_).sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(address.storage_).sin6_port = htons(port);
  return address;
}

bool SocketAddress::is_link_local() const { return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as_v6(*this).sin6_addr); }

bool SocketAddress::lacks_interface() const { return is_link_local() && as_v6(*this).sin6_scope_id == 0; }

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return (ntohl(as_v4(*this).sin_addr.s_addr) >> 24) == 127;
  if (family() == AF_INET6) {
    const auto& address = as_v6(*this).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
  }
  return family() == AF_UNIX;
}

bool SocketAddress::is_multicast() const {
  if (family() == AF_INET) return (ntohl(as_v4(*this).sin_addr.s_addr) >> 28) == 0xe;
  if (family() == AF_INET6) return as_v6(*this).sin6_addr.s6_addr[0] == 0xff;
  return false;
}

bool SocketAddress::is_any() const {
  if (family() == AF_INET) return as_v4(*this).sin_addr.s_addr == htonl(INADDR_ANY);
  if (family() != AF_INET6) return false;
  const auto& address = as_v6(*this).sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && std::memcmp(address.s6_addr + 12, "\0\0\0\0", 4) == 0);
}

std::string describe(std::string_view given, std::uint16_t port) {
  const std::string host = without_brackets(given);
  if (host.find(':') != std::string_view::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

std::string describe(const SocketAddress& address) {
  if (address.family() == AF_INET || address.family() == AF_INET6) return describe(address.host(), address.port());
  if (address.family() != AF_UNIX) return "an unknown address";
  constexpr auto head = offsetof(sockaddr_un, sun_path);
  const auto* path = reinterpret_cast<const char*>(address.data()) + head;
  const std::size_t length = address.size() > head ? address.size() - head : 0;
  if (length == 0) return "unix:(unnamed)";
  if (path[0] == '\0') return "unix:@" + std::string(path + 1, length - 1);
  return "unix:" + std::string(path, ::strnlen(path, length));
}

void check_interface(const SocketAddress& address) {
  if (!address.lacks_interface()) return;
  throw InvalidArgument(fmt::format("{} is a link-local address, which leads nowhere without an interface", address.host()),
                        {.hint = fmt::format("name the interface after it, as in {}%eth0, or give another address", address.host())});
}

bool is_numeric(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(without_brackets(host).c_str(), nullptr, &hints, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port) {
  Lookup found = look_up(host, port);
  if (found.code != 0) throw InvalidArgument(found.why_not(host));
  return std::move(found.addresses);
}

std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port, const Deadline& deadline) {
  using namespace std::chrono_literals;
  constexpr Reminder::Pace pace{3s, 30s};
  const std::string waiting = fmt::format("no address is known for the host \"{}\" yet; it is asked for again, for at most {} s", host,
                                          std::chrono::duration_cast<std::chrono::seconds>(deadline.left()).count());
  std::optional<Reminder> reminder;
  constexpr std::chrono::milliseconds first_pause = 50ms, longest_pause = 1s;
  for (auto pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
    Lookup found = look_up(host, port);
    if (found.code == 0) return std::move(found.addresses);
    if (!found.may_be_known_later()) throw InvalidArgument(found.why_not(host));
    if (deadline.passed()) throw InvalidArgument(fmt::format("{} (asked for {} ms)", found.why_not(host), deadline.timeout().count()));
    if (!reminder)
      reminder.emplace(
          pace, [&] { return waiting; }, [](const std::string& text) { warn(text); });
    if (pause == first_pause) info(found.why_not(host) + "; it is asked for again");
    check_interruption();
    // The system does not announce that a name has become known, so it is asked again, at growing intervals.
    ::poll(nullptr, 0, static_cast<int>(std::min(pause, deadline.left()).count()));
  }
}

Opened try_listen(const SocketAddress& address) {
  Opened opened{open_stream(address.family())};
  const int fd = opened.fd.get();
  const int on = 1;
  const bool inet = address.family() != AF_UNIX;
  // Without SO_REUSEADDR the connections of a job that has just ended would keep its port in use for a minute. An IPv6 socket takes no IPv4
  // connections, since only its own address was asked for.
  if (fd < 0 || (inet && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) ||
      (address.family() == AF_INET6 && ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0) ||
      ::bind(fd, address.data(), address.size()) != 0 || ::listen(fd, SOMAXCONN) != 0) {
    opened.error = errno;
    opened.fd.reset();
  }
  return opened;
}

Opened try_connect(const SocketAddress& address, const Deadline& deadline) {
  Opened opened{open_stream(address.family())};
  const int fd = opened.fd.get();
  if (fd < 0) {
    opened.error = errno;
    return opened;
  }
  if (::connect(fd, address.data(), address.size()) == 0) return opened;
  opened.error = errno;
  if (opened.error == EINPROGRESS || opened.error == EINTR) {
    opened.error = wait_for(fd, POLLOUT, deadline) ? error_of_connecting(fd) : ETIMEDOUT;
  }
  if (opened.error != 0) opened.fd.reset();
  return opened;
}

int error_of_connecting(int fd) {
  const auto error = option_of<int>(fd, SO_ERROR);
  return error ? *error : errno;
}

SocketAddress local_address(int fd) { return address_by(::getsockname, fd, "the address of a socket"); }
SocketAddress peer_address(int fd) { return address_by(::getpeername, fd, "the address of a socket's other end"); }

bool is_stream_socket(int fd, int family) { return option_of<int>(fd, SO_DOMAIN) == family && option_of<int>(fd, SO_TYPE) == SOCK_STREAM; }
bool is_listening(int fd) { return option_of<int>(fd, SO_ACCEPTCONN).value_or(0) != 0; }

bool peer_is_same_user(int fd) {
  const auto credentials = option_of<ucred>(fd, SO_PEERCRED);
  return credentials && credentials->uid == ::geteuid();
}
pid_t peer_process(int fd) { return option_of<ucred>(fd, SO_PEERCRED).value_or(ucred{}).pid; }

void set_close_on_exec(int fd) {
  const int flags = ::fcntl(fd, F_GETFD);
  if (flags < 0 || ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0) fail("close-on-exec");
}

void set_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) fail("non-blocking");
}

void set_no_delay(int fd) {
  const int on = 1;
  [[maybe_unused]] const int ignored = ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// An idle connection is probed several times within the limit. The limit also holds for what was sent and is not acknowledged, which the system would
// send again for a quarter of an hour.
void end_when_silent(int fd, std::chrono::milliseconds limit) {
  constexpr std::int64_t most_seconds = 32'767;  // that the system takes
  const auto seconds = [&](std::int64_t share) { return static_cast<int>(std::clamp<std::int64_t>(limit.count() / 1000 / share, 1, most_seconds)); };
  const auto set = [&](int level, int option, int value) {
    [[maybe_unused]] const int ignored = ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds(3));
  set(IPPROTO_TCP, TCP_KEEPINTVL, seconds(6));
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::min<std::int64_t>(limit.count(), std::numeric_limits<int>::max())));
}

SocketPair make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("a pair of sockets");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

bool wait_for(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, deadline.poll_timeout());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail("poll");
    if (deadline.passed()) return false;
  }
}

std::string error_text(int error) {
  std::string text = std::generic_category().message(error);
  if (error == EMFILE) text += " (see ulimit -n)";
  if (error == EFBIG) text += " (see ulimit -f)";
  return text;
}

}  // namespace unisono::base
