#pragma once

#include <sys/socket.h>

#include "base/tls_library.h"

namespace unisono::transport {

/// The two system calls of a connection: a plain socket's, or those of the TLS around it.
struct Connection {
  int fd = -1;
  base::TlsConnection* tls = nullptr;  ///< null: it is not encrypted

  /// recvmsg that does not wait.
  ssize_t receive(const msghdr& message) const {
    if (tls != nullptr) return tls->read(message.msg_iov, message.msg_iovlen);
    return ::recvmsg(fd, const_cast<msghdr*>(&message), MSG_DONTWAIT);
  }
  /// Does the same with what TLS has read from its socket and not given out yet; the socket itself shows nothing of it.
  ssize_t receive_ahead(const msghdr& message) const { return tls->read_ahead(message.msg_iov, message.msg_iovlen); }
  bool has_unread() const { return tls != nullptr && tls->has_unread(); }
  /// sendmsg that neither waits nor raises SIGPIPE.
  ssize_t send(const msghdr& message) const {
    if (tls != nullptr) return tls->write(message.msg_iov, message.msg_iovlen);
    return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
};

}  // namespace unisono::transport
