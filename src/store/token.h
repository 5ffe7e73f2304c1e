#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/environment.h"
#include "base/socket.h"

namespace unisono::store {

/// The token that connections to, or a listener on, these addresses use; empty: none. From the argument, else from the environment; "none" said
/// aloud is no token. Loopback addresses need none; with any other, InvalidArgument where nothing was said, or less than 16 bytes.
std::string token_for(std::span<const base::SocketAddress> addresses, const std::optional<std::string>& argument,
                      const base::Environment& environment);

/// What UNISONO_TOKEN says, else what the file says that UNISONO_TOKEN_FILE names.
std::optional<std::string> said_token(const base::Environment& environment);

/// The content of a file, without the white space around it. InvalidArgument, naming the file, where it cannot be read, is empty or too long, is no
/// file of this user's, or can be read or written by anybody else.
std::string token_of_file(const std::string& path);

}  // namespace unisono::store
