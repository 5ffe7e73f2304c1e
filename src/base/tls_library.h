#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/secret.h"

// The seam between this library and libunisono-tls.so, the only file that is linked with OpenSSL's libssl. The plug-in is opened when a connection is
// to be encrypted for the first time (tls.h). Nothing on either side throws through the seam: reasons travel as text.
namespace unisono::base {

/// Which side of the TCP connection this is. The connecting side is TLS's client.
enum class TlsSide { connecting, accepting };

/// The proof of a process: a key that both sides have, or a certificate. Both sides must have the same kind.
struct TlsIdentity {
  Secret key = {};               ///< 32 bytes; used where there is no certificate
  std::string certificate = {};  ///< PEM: this process's, and those between it and the authority
  Secret private_key = {};       ///< PEM, not encrypted
  std::string authority = {};    ///< PEM: whoever presents a certificate signed by one of these is admitted
  std::string certificate_file = {}, private_key_file = {}, authority_file = {};  ///< their names, for messages
  std::uint64_t renew_after = std::uint64_t{1} << 36;  ///< bytes written under one key. AES-GCM allows some 2^38 (RFC 8446, 5.5)
};

/// An encrypted connection over a connected, non-blocking socket, which the caller owns and polls. It is used by one thread at a time. `read` and
/// `write` are to it what recvmsg and sendmsg are to a socket.
class TlsConnection {
 public:
  virtual ~TlsConnection() = default;

  enum class Progress {
    done,    ///< the other side has proved itself
    waits,   ///< for the socket: to be readable, and writable where `has_unsent`
    failed,  ///< the other side does not belong here, or finds so of this one; `error` has the reason, and the other side was told
    lost,    ///< the connection has ended; `error` says how
  };
  virtual Progress shake_hands() noexcept = 0;

  /// Fills the parts as far as bytes have arrived. Fewer than there is room for: the rest would have to be waited for, or the stream has ended. 0: it
  /// has ended. -1: errno, EAGAIN where nothing has arrived, EBADMSG where what arrived is no data of this connection (`error`).
  virtual ssize_t read(const iovec* parts, std::size_t count) noexcept = 0;
  /// Does the same with what has been read from the socket already, and leaves the socket alone.
  virtual ssize_t read_ahead(const iovec* parts, std::size_t count) noexcept = 0;
  /// Encrypts the parts and sends them, until the socket is full. What it did not take of the last piece is kept (`has_unsent`), and until that has
  /// been sent, nothing more is taken: -1 with EAGAIN.
  virtual ssize_t write(const iovec* parts, std::size_t count) noexcept = 0;
  /// Returns true while encrypted bytes wait for the socket to be writable.
  virtual bool has_unsent() const noexcept = 0;
  /// Sends them, as far as the socket takes them. False: it takes nothing any more (errno).
  virtual bool flush() noexcept = 0;
  /// Returns true where `read_ahead` may give more at once, although the socket itself has nothing.
  virtual bool has_unread() const noexcept = 0;
  /// Announces the end of what this side sends.
  virtual void close() noexcept = 0;

  /// 32 bytes that only the two sides of this very connection know. A proof over them holds for this connection alone (RFC 9266).
  virtual std::string binding() const = 0;
  /// "TLSv1.3 TLS_AES_128_GCM_SHA256 (pre-shared key)"
  virtual std::string description() const = 0;
  virtual const std::string& error() const noexcept = 0;
  /// Returns true where the other side answered in a protocol of ours without TLS.
  virtual bool met_plain_text() const noexcept = 0;
};

/// Makes connections with one identity. Threads may use it at once.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  /// Null: `why` says why.
  virtual std::unique_ptr<TlsConnection> open(int fd, TlsSide side, std::string& why) const = 0;
  virtual bool has_certificate() const noexcept = 0;
};

/// The functions that the plug-in exports.
struct TlsLibrary {
  const char* version;  ///< "OpenSSL 3.0.11 19 Sep 2023"
  /// Null: `why` names the file at fault and the reason.
  std::unique_ptr<TlsContext> (*make_context)(const TlsIdentity& identity, std::string& why);
};

/// The plug-in's one function: returns null unless it was built for this very version of the library.
inline constexpr std::string_view tls_entry = "unisono_tls_library";
using TlsEntry = const TlsLibrary* (*)(const char* version_of_unisono);

/// The protocols of the store and of the ranks both begin so, where they are not encrypted.
inline constexpr std::string_view plain_text_begins = "UNIS";
/// The first byte of a TLS connection: a record of the handshake.
inline constexpr char tls_begins = 0x16;
/// The answer of a side that does not encrypt to one that does: TLS's own word for it, the fatal alert protocol_version, which tells a stranger
/// nothing.
inline constexpr std::string_view no_tls_here{"\x15\x03\x01\x00\x02\x02\x46", 7};

}  // namespace unisono::base
