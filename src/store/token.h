#pragma once

#include <optional>
#include <span>
#include <string>

#include "ground/environment.h"
#include "ground/socket.h"

namespace unisono::store {

/// The token that connections to, or a listener on, these addresses use; empty: none. From the argument, else UNISONO_TOKEN; "none" said aloud is
/// no token. Loopback addresses need none; with any other, InvalidArgument where nothing was said.
std::string token_for(std::span<const ground::SocketAddress> addresses, const std::optional<std::string>& argument,
                      const ground::Environment& environment);

}  // namespace unisono::store
