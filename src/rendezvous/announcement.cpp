#include "rendezvous/announcement.h"

#include <algorithm>

#include "base/printable.h"
#include "rendezvous/multicast_socket.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

constexpr std::string_view magic = "UNIGROUP";
constexpr std::uint64_t version = 2;
constexpr std::string_view code_label = "unisono multicast";

void put(std::string& bytes, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
}
void put(std::string& bytes, std::string_view text, std::size_t most) {
  text = text.substr(0, most);
  put(bytes, text.size(), 2);
  bytes += text;
}

/// Reads the fields of a datagram. It never reads past the end; a missing field makes `ok` false.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number(int size) {
    const std::string_view bytes = take(static_cast<std::size_t>(size));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }
  int integer() { return static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4))); }
  std::string text() { return std::string(take(number(2))); }
  std::string_view take(std::size_t n) {
    if (n > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  bool ok() const { return ok_; }
  bool complete() const { return ok_ && rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// Bytes of the longest texts: all fields together fit a datagram.
constexpr std::size_t longest_group_name = 255, longest_field = 64, longest_refusal = 256;

std::string code_of(std::string_view content, std::string_view token, std::string_view place) {
  std::string text(content);
  text += place;
  return store::message_code(token, code_label, text);
}

// The text goes into messages, and into records whose fields end with a tab.
using base::printable;

bool read(Fields& in, Announcement& said) {
  said.nonce = in.text();
  said.number = in.number(8);
  for (std::uint64_t echoes = in.number(1); echoes > 0 && in.ok(); --echoes) said.heard.push_back(in.number(8));
  said.member.rank = in.integer();
  said.world_size = in.integer();
  said.port = static_cast<std::uint16_t>(in.number(2));
  said.member.pid = in.integer();
  said.member.host = printable(in.text());
  said.member.machine = printable(in.text());
  said.library = printable(in.text());
  said.job = in.text();
  said.agreed = in.number(1) == 1;
  if (const auto kind = in.number(1); kind != 0) {
    Announcement::Refusal refusal;
    refusal.kind = kind == 1 ? Announcement::Refusal::Kind::duplicate : Announcement::Refusal::Kind::mismatch;
    refusal.text = printable(in.text());
    said.refusal = std::move(refusal);
  }
  return in.complete() && !said.nonce.empty() && said.world_size >= 1 && said.member.rank >= -1 && said.member.rank < said.world_size;
}

}  // namespace

std::string encode(const Announcement& said, std::string_view token, std::string_view place) {
  std::string bytes(magic);
  put(bytes, version, 2);
  put(bytes, said.group_name, longest_group_name);
  put(bytes, said.nonce, longest_field);
  put(bytes, said.number, 8);
  const std::size_t echoes = std::min(said.heard.size(), most_echoes);
  put(bytes, echoes, 1);
  for (std::size_t i = 0; i < echoes; ++i) put(bytes, said.heard[i], 8);
  put(bytes, static_cast<std::uint32_t>(said.member.rank), 4);
  put(bytes, static_cast<std::uint32_t>(said.world_size), 4);
  put(bytes, said.port, 2);
  put(bytes, static_cast<std::uint32_t>(said.member.pid), 4);
  put(bytes, said.member.host, longest_field);
  put(bytes, said.member.machine, longest_field);
  put(bytes, said.library, longest_field);
  put(bytes, said.job, longest_field);
  put(bytes, said.agreed ? 1 : 0, 1);
  put(bytes, said.refusal ? static_cast<std::uint64_t>(said.refusal->kind) : 0, 1);
  if (said.refusal) {
    put(bytes, said.refusal->text, longest_refusal);
  }
  bytes += code_of(bytes, token, place);
  return bytes;
}

Heard hear(std::string_view datagram, std::string_view group_name, std::string_view token, std::string_view place) {
  if (datagram.size() > MulticastSocket::largest || !datagram.starts_with(magic)) return {Hearing::nothing, {}};
  Fields head(datagram.substr(magic.size()));
  if (head.number(2) != version) return {head.ok() ? Hearing::another_version : Hearing::nothing, {}};
  Announcement said;
  said.group_name = head.text();
  if (!head.ok()) return {Hearing::nothing, {}};
  if (said.group_name != group_name) return {Hearing::another_group, {}};
  const std::size_t code_size = token.empty() ? 0 : store::proof_size;
  if (head.left() < code_size) return {Hearing::forged, {}};
  const std::string_view content = datagram.substr(0, datagram.size() - code_size);
  if (!store::same_proof(datagram.substr(content.size()), code_of(content, token, place))) return {Hearing::forged, {}};
  Fields in(head.take(head.left() - code_size));
  if (!read(in, said)) return {token.empty() ? Hearing::forged : Hearing::nothing, {}};
  return {Hearing::ours, std::move(said)};
}

}  // namespace unisono::rendezvous
