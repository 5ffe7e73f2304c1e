#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/environment.h"
#include "base/secret.h"
#include "base/socket.h"
#include "base/tls.h"

namespace unisono::store {

/// Returns the token for connections to, or a listener on, these addresses; empty: none. The argument counts before the environment; the text "none"
/// means no token. Loopback addresses need no token. For any other, InvalidArgument is thrown where there is none, or it has less than 16 bytes.
base::Secret token_for(std::span<const base::SocketAddress> addresses, const std::optional<base::Secret>& argument,
                       const base::Environment& environment);

/// Refuses a secret by which ranks of several hosts would know each other: InvalidArgument where there is none ("none" is a word of its own and is
/// admitted), or it has less than 16 bytes. `hosts` names two of them.
void check_token_between(std::string_view hosts, const std::optional<base::Secret>& token);

/// Returns UNISONO_TOKEN, else the content of the file that UNISONO_TOKEN_FILE names.
std::optional<base::Secret> said_token(const base::Environment& environment);

/// Returns the content of a file, without the white space around it. Throws InvalidArgument, which names the file, where it cannot be read, is empty
/// or too long, belongs to another user, or can be read or written by anybody else.
base::Secret token_of_file(const std::string& path);

/// Refuses encryption without a key: InvalidArgument where UNISONO_TLS asks for it and there is neither a token nor certificates.
void check_key_of_tls(const base::Secret& token, const base::Environment& environment);

/// Returns what the TCP connections of a store are encrypted with, as UNISONO_TLS and its companions say; null: they are not. The key is derived from
/// the token where no certificates are given. Throws InvalidArgument and BackendUnavailable.
std::shared_ptr<const base::TlsContext> tls_for(const base::Secret& token, const base::Environment& environment);

}  // namespace unisono::store
