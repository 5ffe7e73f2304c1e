#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/numbered_codes.h"
#include "base/secret.h"
#include "base/socket.h"
#include "base/tls.h"

namespace unisono::store {

// The handshake on TCP. Both sides show that they know the job's token without sending it:
//   client  hello      client nonce, job tag, whether it has a token
//   server  challenge  server nonce, whether it has a token
//   client  proof      HMAC(token, "client", nonces, tag)
//   server  ok         HMAC(token, "server", nonces, tag)
// The frames behind it have codes whose keys are made in the same way (FrameSealer in wire.h), if there is a token and no TLS around the connection.
// Nonces are fresh on both sides, so no recording can be replayed. The labels differ, so no proof can be reflected. The client proves itself first,
// so a stranger who connects to the server learns nothing to guess the token from. A stranger who listens at the server's address does, hence the
// token's least length. Inside TLS the proofs also cover what only the two ends of that very connection know (its binding), so that somebody in
// between who has a certificate but not the token cannot pass them on. Without a token the proofs are empty. Both sides must agree on whether there
// is one.

inline constexpr std::size_t nonce_size = 32;
inline constexpr std::size_t proof_size = 32;

/// The content of a handshake, equal on both sides.
struct Exchange {
  std::string client_nonce, server_nonce, job_tag;
  std::string binding = {};  ///< of the TLS connection around it; empty: there is none
};

std::string fresh_nonce();
/// Returns such a number in hexadecimal.
std::string fresh_name();
std::string client_proof(std::string_view token, const Exchange& exchange);
std::string server_proof(std::string_view token, const Exchange& exchange);
/// Returns the keys of the frames behind a handshake that both sides have passed; none where they have no codes.
std::optional<base::FrameKeys> client_keys(std::string_view token, const Exchange& exchange);
std::optional<base::FrameKeys> server_keys(std::string_view token, const Exchange& exchange);
/// Compares in a time that does not depend on where they differ.
bool same_proof(std::string_view a, std::string_view b);
/// Returns HMAC-SHA256 of a message under the token; empty without one. `label` keeps messages of different kinds apart.
std::string message_code(std::string_view token, std::string_view label, std::string_view message);
/// Returns the same code, which is kept as the key of something.
base::Secret message_key(std::string_view token, std::string_view label, std::string_view message);
/// Returns 32 bytes that are derived from a secret (HKDF with SHA-256, RFC 5869), so that the secret itself is the key of nothing. Another label
/// gives other bytes, and none of them tells the secret or the others.
base::Secret derived_key(std::string_view secret, std::string_view label);
/// Returns SHA-256 in hexadecimal, for names that others must not be able to choose.
std::string digest(std::string_view text);

}  // namespace unisono::store

struct evp_mac_ctx_st;

namespace unisono::store {

/// The authentication code of a payload: Poly1305 under a key of its own, which is HMAC-SHA256 of the payload's context under a secret. It can only
/// be made by who knows the secret, and a code of one context is none of another.
class PayloadCode {
 public:
  using Bytes = std::array<std::byte, 16>;

  /// `context`: of this payload alone. Two payloads with one context under one secret would tell their key.
  PayloadCode(std::string_view secret, std::string_view context);
  PayloadCode& add(std::span<const std::byte> bytes);
  /// Returns the code of all that was added. It is called once.
  Bytes finish();

 private:
  struct Free {
    void operator()(evp_mac_ctx_st* context) const;
  };
  std::unique_ptr<evp_mac_ctx_st, Free> context_;
};

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
