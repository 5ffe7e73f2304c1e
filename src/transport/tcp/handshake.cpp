#include "transport/tcp/handshake.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/version.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using store::Reader;

constexpr std::string_view magic = "UNISLINK";
constexpr std::uint16_t wire_version = 5;

std::string greeting() { return store::greeting(magic, wire_version); }
// Returns a frame: a length, and then the content.
std::string frame(std::string_view content) { return base::ByteWriter().text(content).take(); }

}  // namespace

Handshake::Handshake(base::Secret secret, int from, int to, std::vector<int> admitted)
    : secret_(std::move(secret)), from_(from), to_(to), admitted_(std::move(admitted)) {
  if (secret_.size() != secret_size) throw ProtocolError("the link's secret has another length than it should");
  if (accepts()) return;
  from_nonce_ = store::fresh_nonce();
  base::ByteWriter hello;
  hello.raw(from_nonce_).put(static_cast<std::uint64_t>(from_)).put(static_cast<std::uint64_t>(to_));
  out_ = greeting() + frame(hello.bytes());
}

base::Secret Handshake::proof(std::string_view label) const {
  base::ByteWriter message;
  message.raw(from_nonce_).raw(to_nonce_).put(static_cast<std::uint64_t>(from_)).put(static_cast<std::uint64_t>(to_)).raw(binding_);
  return store::message_key(secret_.view(), label, message.bytes());
}

void Handshake::receive(std::string_view bytes) {
  in_.append(bytes);
  if (stage_ == Stage::greeting) read_greeting();
  while (stage_ != Stage::greeting && stage_ != Stage::done && stage_ != Stage::unwanted) {
    bool too_long = false;
    const auto content = in_.take_frame(longest_handshake_frame, too_long);
    if (too_long) throw ProtocolError("it sent a frame that is too long");
    if (!content) return;
    read_frame(*content);
  }
  if (done() && accepts() && in_.size() != 0) throw ProtocolError("it goes on before it was accepted");
}

void Handshake::read_greeting() {
  const std::string_view start = in_.peek();
  if (!magic.starts_with(start.substr(0, magic.size()))) throw ProtocolError("it is not a rank of unisono");
  if (start.size() < store::greeting_size) return;
  const store::Greeting theirs = store::parse_greeting(*in_.take(store::greeting_size), magic);
  if (theirs.wire != wire_version) {
    throw ProtocolError(fmt::format("it is unisono {} (wire {}), this process is {} (wire {})", base::to_string(theirs.library), theirs.wire,
                                    base::to_string(base::library_version()), wire_version));
  }
  stage_ = accepts() ? Stage::hello : Stage::challenge;
}

void Handshake::read_frame(std::string_view content) {
  const auto expect = [&](std::size_t size) {
    if (content.size() != size) throw ProtocolError("its handshake is malformed");
  };
  const auto require_proof = [&](std::string_view side) {
    expect(store::proof_size);
    if (!store::same_proof(content, proof(side).view())) throw ProtocolError("it could not show that it knows this job's secret");
  };
  switch (stage_) {
    case Stage::hello: {
      expect(store::nonce_size + 16);
      from_nonce_ = content.substr(0, store::nonce_size);
      Reader ranks(content.substr(store::nonce_size));
      const std::uint64_t from = ranks.integer();
      const std::uint64_t to = ranks.integer();
      const bool expected = std::ranges::any_of(admitted_, [&](int rank) { return static_cast<std::uint64_t>(rank) == from; });
      if (!expected || to != static_cast<std::uint64_t>(to_)) throw ProtocolError("it says that it is a rank which does not connect here");
      from_ = static_cast<int>(from);
      to_nonce_ = store::fresh_nonce();
      out_ = greeting() + frame(to_nonce_);
      stage_ = Stage::proof;
      return;
    }
    case Stage::challenge:
      expect(store::nonce_size);
      to_nonce_ = content;
      out_ = frame(proof("unisono link: connecting").view());
      stage_ = Stage::accepted;
      return;
    case Stage::proof:
      require_proof("unisono link: connecting");
      if (wants_ && !wants_(from_)) {
        stage_ = Stage::unwanted;
        return;
      }
      out_ = frame(proof("unisono link: accepting").view());
      stage_ = Stage::done;
      return;
    case Stage::accepted:
      require_proof("unisono link: accepting");
      stage_ = Stage::done;
      return;
    case Stage::greeting:
    case Stage::done:
    case Stage::unwanted: break;
  }
}

FrameKeys Handshake::keys() const {
  FrameKeys keys{proof("unisono link: frames of the connecting side"), proof("unisono link: frames of the accepting side")};
  if (accepts()) std::swap(keys.sending, keys.receiving);
  return keys;
}

std::string Handshake::take_rest() { return in_.size() == 0 ? std::string() : *in_.take(in_.size()); }

}  // namespace unisono::transport
