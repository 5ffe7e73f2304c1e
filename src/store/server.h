#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/secret.h"
#include "base/tls_library.h"
#include "store/table.h"
#include "unisono/detail/switches.h"

namespace unisono::store {

struct ServerOptions {
  base::Secret token = {};                           ///< TCP clients must prove to know it; empty: none
  std::string job_tag = {};                          ///< TCP clients that name another are refused; empty: any
  std::shared_ptr<const base::TlsContext> tls = {};  ///< TCP connections are encrypted with it; null: they are not
  Limits limits = {};
  std::chrono::milliseconds handshake_timeout = std::chrono::seconds(2);
  std::chrono::milliseconds silence = detail::silence_limit();  ///< the host of a client says nothing for so long: the client is gone
  pid_t family_of = 0;              ///< clients on AF_UNIX must be descendants of this process; 0: any process of the user may come
  std::size_t most_pending = 64;    ///< connections that have not authenticated yet
  std::size_t most_waiting = 1024;  ///< parked requests of one connection
  std::size_t most_waiting_bytes = std::size_t{32} << 20;  ///< bytes of the keys of those requests
  std::size_t most_unsent = std::size_t{64} << 20;         ///< bytes that one connection may leave unread before it is closed
};

/// Holds the data of a store and serves it, from one thread. A get or wait for a missing key is parked here until the key is set or its time is over.
/// No client can stop the others: every socket is non-blocking, memory is never allocated by a length field alone, and a request beyond a limit is an
/// error of that client alone.
class StoreServer {
 public:
  explicit StoreServer(ServerOptions options = {});
  /// Sends the pending answers (for at most half a second), then closes everything.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Serves a listening socket. On TCP the clients authenticate; on AF_UNIX they must run as the same user.
  void listen(base::FileDescriptor listening);
  /// Serves one end of a connected stream that the owner trusts: there is no handshake.
  void adopt(base::FileDescriptor connected);

  std::optional<std::string> peek(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  /// Sets what clients read by try_get alone, and none can change.
  void set_secret(std::string_view key, base::Secret value);

  struct Counts {
    std::size_t connections = 0, pending = 0, waiting = 0, keys = 0;
  };
  Counts counts() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace unisono::store
