#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numbered_codes.h"
#include "store/wire.h"

namespace unisono::transport {

// The handshake by which two ranks prove to each other that they belong to the job: both know the link's secret, which the job's store gave them, and
// neither sends it.
//   connecting  greeting; hello: nonce, from, to
//   accepting   greeting; challenge: nonce
//   connecting  proof: HMAC(secret, "connecting", nonces, ranks, binding)
//   accepting   accepted: HMAC(secret, "accepting", nonces, ranks, binding)
// Nonces are fresh on both sides, so no recording can be replayed. The labels differ, so no proof can be reflected. The connecting side proves itself
// first, so a stranger learns nothing to guess the secret from. The binding is empty, or of the TLS connection around it, for which alone a proof
// then holds. The greeting (16 bytes: magic, wire version, version of the library) never changes its layout.

inline constexpr std::size_t longest_handshake_frame = 256;
inline constexpr std::size_t secret_size = 32;

using base::FrameKeys;

/// A side of the handshake, without the connection: it takes and gives bytes. `receive` throws ProtocolError with the reason at the first wrong
/// byte.
class Handshake {
 public:
  static Handshake connecting(base::Secret secret, int from, int to) { return {std::move(secret), from, to, {}}; }
  /// Makes the accepting side; only the ranks in `from` are admitted.
  static Handshake accepting(base::Secret secret, int to, std::vector<int> from) { return {std::move(secret), -1, to, std::move(from)}; }

  /// Lets the accepting side ask whether a rank that has proved itself is wanted, before that rank is told that it is accepted.
  void ask(std::function<bool(int rank)> wants) { wants_ = std::move(wants); }
  /// Makes the proofs hold for one TLS connection alone; called before anything is received.
  void bind(std::string binding) { binding_ = std::move(binding); }
  void receive(std::string_view bytes);
  std::string take_output() { return std::exchange(out_, {}); }
  /// Returns true when both have proved themselves (once the output has been sent).
  bool done() const { return stage_ == Stage::done; }
  /// Returns true where the other rank has proved itself and was not wanted: it is not accepted, and may try again.
  bool is_unwanted() const { return stage_ == Stage::unwanted; }
  int from() const { return from_; }
  bool has_received_nothing() const { return stage_ == Stage::greeting && in_.size() == 0; }
  /// Derives the keys of this connection, when the handshake is done.
  FrameKeys keys() const;
  /// Returns the bytes that arrived behind the handshake.
  std::string take_rest();

 private:
  enum class Stage { greeting, hello, challenge, proof, accepted, done, unwanted };
  Handshake(base::Secret secret, int from, int to, std::vector<int> admitted);
  bool accepts() const { return !admitted_.empty(); }
  void read_greeting();
  void read_frame(std::string_view frame);
  base::Secret proof(std::string_view label) const;

  base::Secret secret_;
  int from_, to_;
  std::vector<int> admitted_;
  std::function<bool(int rank)> wants_{};
  std::string from_nonce_, to_nonce_, binding_;
  Stage stage_ = Stage::greeting;
  store::FrameBuffer in_;
  std::string out_;
};

}  // namespace unisono::transport
