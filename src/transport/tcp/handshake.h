#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numbered_codes.h"
#include "store/wire.h"

namespace unisono::transport {

// The handshake by which two ranks prove to each other that they belong to the job. Both know `secret_`, and neither sends it.
//
// Four ranks on four hosts. Rank 0 has put 32 random bytes into the job's store, and every rank has made `secret_` of them and of the job's token
// (Meeting::learn). The lower rank of each pair connects, so rank 3 only listens; its `admitted_` is {0, 1, 2}. Rank 1 calls it:
//
//   rank 1: connecting, from_ = 1, to_ = 3                         rank 3: accepting, to_ = 3
//   stage_       sends                                             stage_      checks
//   challenge    greeting; hello: from_nonce_, from_, to_    ->    hello       the greeting's magic and wire version; that 1 is in admitted_,
//                                                                              and that to_ is its own rank. Then from_ = 1
//                greeting; challenge: to_nonce_              <-    proof
//   accepted     HMAC(secret_, "connecting", m)              ->    proof       the code, in a time that does not depend on where it differs;
//                                                                              then wants_(1): two ranks may connect with each other at a time
//   done         HMAC(secret_, "accepting", m)               <-    done
//
//   m = from_nonce_, to_nonce_, from_, to_, binding_
//
// Both sides now derive the keys of the frames that follow from the same m, under labels of their own (`keys`). Ranks 0 and 2 do the same with rank
// 3, each under fresh nonces. What this withstands:
//   a recording of rank 1 is replayed    to_nonce_ is another one, and the recorded proof does not fit it
//   rank 3's words are sent back to it   its label is "accepting", and it expects "connecting"
//   a stranger connects                  it gets a nonce and no code: the connecting side proves itself first. A frame has at most
//                                        longest_handshake_frame bytes, a handshake 2 s, and at most 64 are under way (Acceptor)
//   somebody stands between the two      within TLS, binding_ is known to the two ends of one connection alone, so a proof cannot be passed on
// The greeting (16 bytes: magic, wire version, version of the library) never changes its layout, so that two versions can name each other.

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
  /// Returns true on the connecting side when it has proved itself: the other side may have accepted it, and counts the connection as made then.
  bool awaits_acceptance() const { return stage_ == Stage::accepted; }
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
