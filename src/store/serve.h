#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/socket.h"
#include "store/client.h"
#include "store/server.h"

namespace unisono::store {

/// Listens on the first of the addresses that allows it. Throws InvalidArgument, which names address and port, where none does.
base::FileDescriptor listen_on(const std::vector<base::SocketAddress>& addresses);

/// Makes a store that this process serves on `listening`, and returns a client of it. The server lives as long as that client.
std::shared_ptr<Client> serve(base::FileDescriptor listening, const std::string& place, ServerOptions options);

}  // namespace unisono::store
