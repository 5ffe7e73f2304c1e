#pragma once

#include <string>
#include <string_view>

namespace unisono::store {

// The handshake on TCP. Both sides show that they know the job's token without sending it:
//   client  hello      client nonce, job tag, whether it has a token
//   server  challenge  server nonce, whether it has a token
//   client  proof      HMAC(token, "client", nonces, tag)
//   server  ok         HMAC(token, "server", nonces, tag)
// Nonces are fresh on both sides, so nothing can be replayed; the labels differ, so nothing can be reflected; the client proves
// itself first, so that a stranger who connects gets nothing to guess the token from, but who listens where a client looks does: hence its least
// length. Without a token the proofs are empty. Whether there is one must be agreed on by both.

inline constexpr std::size_t nonce_size = 32;
inline constexpr std::size_t proof_size = 32;

/// What one handshake is about, the same on both sides.
struct Exchange {
  std::string client_nonce, server_nonce, job_tag;
};

std::string fresh_nonce();
std::string client_proof(std::string_view token, const Exchange& exchange);
std::string server_proof(std::string_view token, const Exchange& exchange);
/// In a time that does not tell where they differ.
bool same_proof(std::string_view a, std::string_view b);
/// HMAC-SHA256 of a message under the token; empty without one. `label` keeps messages of different kinds apart.
std::string message_code(std::string_view token, std::string_view label, std::string_view message);
/// SHA-256 in hexadecimal; for names that others must not be able to choose.
std::string digest(std::string_view text);

}  // namespace unisono::store
