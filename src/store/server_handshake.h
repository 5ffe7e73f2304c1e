#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/rejection_log.h"
#include "store/server_options.h"
#include "store/session.h"

namespace unisono::store {

/// Decides who is a client: the greeting and the handshake on the server's side, and the frames that a session may send.
class ServerHandshake {
 public:
  explicit ServerHandshake(const ServerOptions& options) : options_(options) {}

  /// Handles what comes first on a connection. Returns false where it cannot be answered: the connection is closed.
  bool begin(Session& session);
  /// Takes the next frame. Returns nothing where none has arrived, or the session was refused for what has.
  std::optional<std::string> take_frame(Session& session);
  /// Handles a frame of a session that has not authenticated.
  void receive(Session& session, std::string_view frame);
  void refuse(Session& session, std::uint64_t request, std::string_view why);
  void log_rejected(const Session& session, std::string_view why) { rejections_.log(session.source, why); }

 private:
  void receive_hello(Session& session, Op op, Reader& in);
  void receive_proof(Session& session, Op op, Reader& in);

  const ServerOptions& options_;
  base::RejectionLog rejections_{"the store"};
};

}  // namespace unisono::store
