#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/tls_library.h"

namespace unisono::base {

/// What UNISONO_TLS and its companions say.
struct TlsOptions {
  enum class Mode {
    off,
    on,        ///< every TCP connection of ours is encrypted; a side that does not encrypt is refused
    required,  ///< the same, and what libraries of others would send unencrypted between hosts is refused
  };
  Mode mode = Mode::off;
  std::string certificate, private_key, authority;  ///< names of files; all or none

  bool wanted() const { return mode != Mode::off; }
  bool has_certificate() const { return !certificate.empty(); }
  std::string_view word() const;
};

/// Throws InvalidArgument, which names the variable, where a value has no meaning or one of the files is not given.
TlsOptions tls_options(const Environment& environment);

/// Makes the context of a process: with its certificate where one is given, else with `key`. Throws BackendUnavailable where libunisono-tls.so is
/// missing or cannot be loaded, and InvalidArgument where a file is at fault: unreadable, open to others, of another key, expired, of another
/// authority.
std::shared_ptr<const TlsContext> make_tls_context(const TlsOptions& options, const Secret& key);

/// The plug-in, as far as it can be used here.
struct TlsAvailability {
  const TlsLibrary* library = nullptr;
  std::string path = {};
  std::string why_not = {};
};
/// Looks for the plug-in and loads it, once in a process.
const TlsAvailability& tls_availability();

/// The system calls of a connection, encrypted or not (`tls` is null): recv and send that neither wait nor raise SIGPIPE.
inline ssize_t receive(int fd, TlsConnection* tls, void* to, std::size_t size) {
  if (tls == nullptr) return ::recv(fd, to, size, MSG_DONTWAIT);
  const iovec part{to, size};
  return tls->read(&part, 1);
}
inline ssize_t send(int fd, TlsConnection* tls, const void* from, std::size_t size) {
  if (tls == nullptr) return ::send(fd, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  const iovec part{const_cast<void*>(from), size};
  return tls->write(&part, 1);
}

/// Returns true where the operating system's kernel could encrypt the records of a TLS connection.
bool kernel_has_tls();

}  // namespace unisono::base
