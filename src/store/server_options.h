#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

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

/// What a server has at this moment.
struct ServerCounts {
  std::size_t connections = 0, pending = 0, waiting = 0, keys = 0;
};

}  // namespace unisono::store
