// The handshake of two ranks, of which the input plays one. The other side is done only with a rank that has proved that it knows the secret, refuses
// with ProtocolError, sends few bytes, and keeps none but those that have come.
#include "transport/tcp/handshake.h"

#include "input.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

using transport::Handshake;

const std::string secret(transport::secret_size, 's');

/// Sends what `from` says to `to` in pieces, with some changes. Returns whether there were any.
bool carry(Input& in, Handshake& from, Handshake& to) {
  std::string bytes = from.take_output();
  require(bytes.size() <= 512, "a side says little");
  const std::string before = bytes;
  for (std::size_t changes = in.choice(15); changes > 12 && !bytes.empty(); --changes) {
    const std::size_t at = in.number<std::uint8_t>() % bytes.size();
    switch (in.choice(3)) {
      case 0: bytes[at] ^= in.number<char>(); break;
      case 1: bytes.resize(at); break;
      case 2: bytes.insert(at, in.text()); break;
      default: bytes = in.text(); break;
    }
  }
  const std::size_t piece = 1 + in.number<std::uint8_t>();
  for (std::size_t at = 0; at < bytes.size(); at += piece) to.receive(std::string_view(bytes).substr(at, piece));
  return bytes != before;
}

void check_both_sides(Input& in) {
  const bool knows_secret = in.choice(7) != 0;
  Handshake connecting = Handshake::connecting(knows_secret ? secret : std::string(transport::secret_size, 'x'), 1, 0);
  Handshake accepting = Handshake::accepting(secret, 0, {1, 2});
  const bool is_wanted = in.choice(7) != 0;
  accepting.ask([&](int) { return is_wanted; });
  const std::string binding = in.choice(3) == 0 ? in.text(32) : std::string();
  connecting.bind(binding);
  accepting.bind(in.choice(7) == 0 ? in.text(32) : binding);
  bool was_changed = false;
  const bool is_refused = refuses<ProtocolError>([&] {
    for (int round = 0; round < 2; ++round) {
      was_changed = carry(in, connecting, accepting) || was_changed;
      was_changed = carry(in, accepting, connecting) || was_changed;
    }
  });
  const bool both_done = connecting.done() && accepting.done();
  if (!was_changed && knows_secret && is_wanted && !is_refused) require(both_done, "two honest sides come to an end");
  require(knows_secret || (!accepting.done() && !connecting.done()), "nobody is let in without the secret");
  require(is_wanted || !accepting.done(), "nobody is let in that is not wanted");
  if (both_done) {
    require(connecting.keys().sending == accepting.keys().receiving && connecting.keys().receiving == accepting.keys().sending,
            "both have the same keys");
    require(accepting.from() == 1, "the rank is the one that came");
  }
}

/// The input is what one side receives, whatever it is.
void check_alone(Input& in, bool accepts) {
  Handshake side = accepts ? Handshake::accepting(secret, 0, {1, 2}) : Handshake::connecting(secret, 1, 0);
  side.take_output();
  refuses<ProtocolError>([&] {
    while (in.has_more()) side.receive(in.text());
  });
  require(!side.done(), "nobody guesses a proof");
  require(side.take_output().size() <= 512, "a side says little");
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  switch (in.choice(3)) {
    case 0: return check_alone(in, true);
    case 1: return check_alone(in, false);
    default: return check_both_sides(in);
  }
}

}  // namespace unisono::fuzz
