#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/socket.h"
#include "store/client.h"
#include "store/server.h"

namespace unisono::store {

/// Listens on the first of the addresses that can be listened on. InvalidArgument, naming address and port, where none can.
base::FileDescriptor listen_on(const std::vector<base::SocketAddress>& addresses);

/// A store that this process serves on `listening`, and its own way into it. The server lives as long as the store.
std::shared_ptr<Client> serve(base::FileDescriptor listening, const std::string& place, ServerOptions options);

}  // namespace unisono::store
