#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/secret.h"
#include "store/server_options.h"

namespace unisono::store {

class ServerLoop;

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

  ServerCounts counts() const;

 private:
  std::unique_ptr<ServerLoop> loop_;
};

}  // namespace unisono::store
