#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/environment.h"
#include "base/socket.h"

namespace unisono::store {

/// Returns the token for connections to, or a listener on, these addresses; empty: none. The argument counts before the environment; the text "none"
/// means no token. Loopback addresses need no token. For any other, InvalidArgument is thrown where there is none, or it has less than 16 bytes.
std::string token_for(std::span<const base::SocketAddress> addresses, const std::optional<std::string>& argument,
                      const base::Environment& environment);

/// Returns UNISONO_TOKEN, else the content of the file that UNISONO_TOKEN_FILE names.
std::optional<std::string> said_token(const base::Environment& environment);

/// Returns the content of a file, without the white space around it. Throws InvalidArgument, which names the file, where it cannot be read, is empty
/// or too long, belongs to another user, or can be read or written by anybody else.
std::string token_of_file(const std::string& path);

}  // namespace unisono::store
