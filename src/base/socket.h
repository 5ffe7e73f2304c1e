#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace unisono::base {

/// An IPv4, IPv6 or abstract AF_UNIX address, as the kernel takes it. Names are resolved before one of these exists.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t size);
  /// Returns a name in the abstract namespace, which has no file and ends with the socket.
  static SocketAddress abstract_unix(std::string_view name);

  int family() const { return storage_.ss_family; }
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  std::uint16_t port() const;  ///< 0 where there is none
  std::string host() const;    ///< numeric; of a link-local address with its interface: "fe80::1%eth0"
  /// Returns the host in numbers without an interface, whose name other hosts do not know.
  std::string host_for_others() const;
  /// Returns the address that another host has told, to be reached from `own`: a link-local one gets own's interface.
  SocketAddress as_seen_from(const SocketAddress& own) const;
  SocketAddress with_port(std::uint16_t port) const;
  bool is_link_local() const;  ///< of IPv6
  /// Returns true for a link-local address that names no interface, which leads nowhere.
  bool lacks_interface() const;
  bool is_loopback() const;  ///< also true of AF_UNIX
  bool is_multicast() const;
  bool is_any() const;  ///< 0.0.0.0 or ::, which mean every interface

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// "127.0.0.1:29500", "[::1]:29500", "unix:@name".
std::string describe(const SocketAddress& address);
std::string describe(std::string_view host, std::uint16_t port);

/// Returns the addresses of a name, in the order to try them; a numeric address needs no resolver, and one of IPv6 may stand in brackets. Throws
/// InvalidArgument where there are none. It never makes a reverse lookup.
std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port);
/// Resolves a name that may become known later, as where host 0 is being started: asks again until the deadline, and warns after 3 s and then every
/// 30 s.
std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port, const Deadline& deadline);

/// Throws InvalidArgument for a link-local address that names no interface.
void check_interface(const SocketAddress& address);

/// Returns true for an address in numbers, false for a name.
bool is_numeric(const std::string& host);

/// A new descriptor, or the errno of the failed call. Callers compare errors by number, never by text.
struct Opened {
  FileDescriptor fd;
  int error = 0;
};
/// Returns a listening, non-blocking socket on exactly this address. Forked processes do not inherit it, nor a connected one.
Opened try_listen(const SocketAddress& address);
/// Returns a connected, non-blocking socket; ETIMEDOUT where the deadline passed first.
Opened try_connect(const SocketAddress& address, const Deadline& deadline);

/// Returns the errno with which a connection that was begun has failed; 0: it is made.
int error_of_connecting(int fd);

SocketAddress local_address(int fd);
SocketAddress peer_address(int fd);
bool is_stream_socket(int fd, int family);
bool is_listening(int fd);
/// Returns true where the process at the other end of an AF_UNIX socket runs as the same user.
bool peer_is_same_user(int fd);

/// Returns the process that made or connected the other end of an AF_UNIX socket; 0 where it is not known or of another PID namespace.
pid_t peer_process(int fd);

void set_close_on_exec(int fd);
void set_non_blocking(int fd);
/// Sends small requests at once (TCP only; ignored elsewhere).
void set_no_delay(int fd);
/// Lets the system end the connection (ETIMEDOUT) when nothing has come from the other end's system for so long, because the network is cut or the
/// host is gone (TCP only; ignored elsewhere). A process that is slow or stopped is no reason: its system answers for it, as
/// long as there is room for what the process has not read.
void end_when_silent(int fd, std::chrono::milliseconds limit);
struct SocketPair {
  FileDescriptor first, second;
};
/// Returns the two ends of an AF_UNIX stream, both CLOEXEC.
SocketPair make_socket_pair();

/// Waits until the descriptor has one of `events` or the deadline passes; returns false where it passed.
bool wait_for(int fd, short events, const Deadline& deadline);

/// Returns the text of an errno, with the limit of the process that may be the reason.
std::string error_text(int error);

}  // namespace unisono::base
