// The datagrams of multicast discovery. Random bytes are never believed under a token; an announcement comes back; one of which the sender or
// somebody on the way has changed bytes is not believed, unless the code is right for them, and then it has fields within their bounds.
#include "rendezvous/announcement.h"

#include "input.h"
#include "store/authentication.h"

namespace unisono::fuzz {
namespace {

using rendezvous::Announcement;
using rendezvous::Hearing;

constexpr std::string_view group = "group", token = "a token of many bytes", place = "239.1.2.3:4567";

void check_heard(const Announcement& said) {
  require(said.world_size >= 1 && said.member.rank >= -1 && said.member.rank < said.world_size, "a rank lies in its world");
  require(!said.nonce.empty() && said.group_name == group, "it has a nonce, and the group's name");
  for (const std::string& text : {said.member.host.get(), said.member.machine.get(), said.library}) {
    for (const char c : text) require(static_cast<unsigned char>(c) >= 0x20, "no text has control characters");
  }
}

Announcement make(Input& in) {
  constexpr std::size_t longest = 64;
  Announcement said;
  said.group_name = group;
  said.nonce = "n" + in.text(longest - 1);
  said.number = in.number<std::uint64_t>();
  for (std::size_t echoes = in.choice(rendezvous::most_echoes); echoes > 0; --echoes) said.heard.push_back(in.number<std::uint64_t>());
  said.world_size = 1 + in.number<std::uint16_t>();
  said.member.rank = in.number<std::uint16_t>() % (said.world_size + 1) - 1;
  said.member.pid = in.number<int>();
  said.port = in.number<std::uint16_t>();
  said.job = in.text(longest);
  said.agreed = in.flag();
  if (in.flag()) said.refusal = Announcement::Refusal{.kind = Announcement::Refusal::Kind::mismatch, .text = "of another size"};
  said.member.host = "host";
  said.member.machine = "machine";
  said.library = "1.2.3";
  return said;
}

void check_encoded(Input& in) {
  const bool has_token = in.flag();
  const std::string_view key = has_token ? token : std::string_view();
  const Announcement said = make(in);
  std::string datagram = encode(said, key, place);
  require(datagram.size() <= rendezvous::MulticastSocket::largest, "it fits a datagram");
  const auto heard = rendezvous::hear(datagram, group, key, place);
  require(heard.hearing == Hearing::ours && encode(heard.announcement, key, place) == datagram, "an announcement comes back");
  require(!has_token || rendezvous::hear(datagram, group, key, "239.1.2.3:4568").hearing == Hearing::forged, "it holds for its place alone");
  // Bytes change on the way.
  const std::string before = datagram;
  while (in.has_more()) datagram[in.number<std::uint16_t>() % datagram.size()] ^= in.number<char>();
  const auto changed = rendezvous::hear(datagram, group, key, place);
  if (changed.hearing != Hearing::ours) return;
  require(!has_token || datagram == before, "a change is noticed");
  check_heard(changed.announcement);
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  const std::size_t way = in.choice(2);
  if (way == 0) return check_encoded(in);
  // The rest is a datagram, or its content, for which the sender, who knows the token, has made a code.
  std::string datagram(in.rest());
  require(rendezvous::hear(datagram, group, token, place).hearing != Hearing::ours, "nothing is believed without a code");
  const bool is_signed = way == 2;
  if (is_signed) datagram += store::message_code(token, "unisono multicast", datagram + std::string(place));
  const auto heard = rendezvous::hear(datagram, group, is_signed ? token : std::string_view(), place);
  if (heard.hearing == Hearing::ours) check_heard(heard.announcement);
}

}  // namespace unisono::fuzz
