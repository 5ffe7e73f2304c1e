#include "transport/tcp/handshake.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/version.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using store::Reader;

constexpr std::string_view magic = "UNISLINK";
constexpr std::uint16_t wire_version = 4;
constexpr std::size_t greeting_size = 16;

std::string greeting() {
  const base::Version version = base::library_version();
  std::string bytes(magic);
  for (const std::uint16_t part : {wire_version, version.major, version.minor, version.patch}) {
    bytes += static_cast<char>(part & 0xff);
    bytes += static_cast<char>(part >> 8);
  }
  return bytes;
}

std::uint16_t part_of(std::string_view greeting, std::size_t i) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned>(static_cast<unsigned char>(greeting[magic.size() + at])); };
  return static_cast<std::uint16_t>(byte(2 * i) | byte(2 * i + 1) << 8);
}

// Returns a frame: a length, and then the content.
std::string frame(std::string_view content) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(content.size() >> (8 * i) & 0xff);
  return bytes.append(content);
}

void put(std::string& bytes, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

Handshake::Handshake(base::Secret secret, int from, int to, std::vector<int> admitted)
    : secret_(std::move(secret)), from_(from), to_(to), admitted_(std::move(admitted)) {
  if (secret_.size() != secret_size) throw ProtocolError("the link's secret has another length than it should");
  if (accepts()) return;
  from_nonce_ = store::fresh_nonce();
  std::string hello = from_nonce_;
  put(hello, static_cast<std::uint64_t>(from_));
  put(hello, static_cast<std::uint64_t>(to_));
  out_ = greeting() + frame(hello);
}

base::Secret Handshake::proof(std::string_view label) const {
  std::string message = from_nonce_ + to_nonce_;
  put(message, static_cast<std::uint64_t>(from_));
  put(message, static_cast<std::uint64_t>(to_));
  message += binding_;
  return store::message_key(secret_.view(), label, message);
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
  if (start.size() < greeting_size) return;
  const std::string theirs = *in_.take(greeting_size);
  if (part_of(theirs, 0) != wire_version) {
    const auto version = base::to_string({part_of(theirs, 1), part_of(theirs, 2), part_of(theirs, 3)});
    throw ProtocolError(fmt::format("it is unisono {} (wire {}), this process is {} (wire {})", version, part_of(theirs, 0),
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
      const bool expected = std::any_of(admitted_.begin(), admitted_.end(), [&](int rank) { return static_cast<std::uint64_t>(rank) == from; });
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
