#include "rendezvous/announcement.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/printable.h"
#include "rendezvous/multicast_socket.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

constexpr std::string_view magic = "UNIGROUP";
constexpr std::uint16_t version = 2;
constexpr std::string_view code_label = "unisono multicast";

void put_text(base::ByteWriter& bytes, std::string_view text, std::size_t most) {
  text = text.substr(0, most);
  bytes.put(static_cast<std::uint16_t>(text.size())).raw(text);
}
std::string text_of(base::ByteReader& in) { return std::string(in.raw(in.get<std::uint16_t>())); }

// Bytes of the longest texts: all fields together fit a datagram.
constexpr std::size_t longest_group_name = 255, longest_field = 64, longest_refusal = 256;

std::string code_of(std::string_view content, std::string_view token, std::string_view place) {
  std::string text(content);
  text += place;
  return store::message_code(token, code_label, text);
}

// The text goes into messages, and into records whose fields end with a tab.
using base::printable;

bool read(base::ByteReader& in, Announcement& said) {
  said.nonce = text_of(in);
  said.number = in.get<std::uint64_t>();
  for (int echoes = in.get<std::uint8_t>(); echoes > 0 && in.ok(); --echoes) said.heard.push_back(in.get<std::uint64_t>());
  said.member.rank = in.get<std::int32_t>();
  said.world_size = in.get<std::int32_t>();
  said.port = in.get<std::uint16_t>();
  said.member.pid = in.get<std::int32_t>();
  for (std::string* const text : {&said.member.host, &said.member.machine, &said.library}) *text = printable(text_of(in));
  said.job = text_of(in);
  said.agreed = in.get<std::uint8_t>() == 1;
  if (const auto kind = in.get<std::uint8_t>(); kind != 0)
    said.refusal = {kind == 1 ? Announcement::Refusal::Kind::duplicate : Announcement::Refusal::Kind::mismatch, printable(text_of(in))};
  return in.complete() && !said.nonce.empty() && said.world_size >= 1 && said.member.rank >= -1 && said.member.rank < said.world_size;
}

using base::Clock;

// A process that was silent for so many pauses counts as gone. It is known again when it announces itself again.
constexpr auto longest_silence = 20 * longest_pause;
// The number of other processes that are remembered beside as many as there are ranks: without a token, any process can claim to be one.
constexpr std::size_t most_strangers = 1024;

}  // namespace

std::string encode(const Announcement& said, std::string_view token, std::string_view place) {
  base::ByteWriter bytes;
  bytes.raw(magic).put(version);
  put_text(bytes, said.group_name, longest_group_name);
  put_text(bytes, said.nonce, longest_field);
  const std::size_t echoes = std::min(said.heard.size(), most_echoes);
  bytes.put(said.number).put(static_cast<std::uint8_t>(echoes));
  for (std::size_t i = 0; i < echoes; ++i) bytes.put(said.heard[i]);
  bytes.put(std::int32_t{said.member.rank}).put(std::int32_t{said.world_size}).put(said.port).put(std::int32_t{said.member.pid});
  for (const std::string* const text : {&said.member.host, &said.member.machine, &said.library, &said.job}) put_text(bytes, *text, longest_field);
  bytes.put(static_cast<std::uint8_t>(said.agreed ? 1 : 0)).put(said.refusal ? static_cast<std::uint8_t>(said.refusal->kind) : std::uint8_t{0});
  if (said.refusal) put_text(bytes, said.refusal->text, longest_refusal);
  return bytes.raw(code_of(bytes.bytes(), token, place)).take();
}

Heard hear(std::string_view datagram, std::string_view group_name, std::string_view token, std::string_view place) {
  if (datagram.size() > MulticastSocket::largest || !datagram.starts_with(magic)) return {Hearing::nothing, {}};
  base::ByteReader head(datagram.substr(magic.size()));
  if (head.get<std::uint16_t>() != version) return {head.ok() ? Hearing::another_version : Hearing::nothing, {}};
  Announcement said;
  said.group_name = text_of(head);
  if (!head.ok()) return {Hearing::nothing, {}};
  if (said.group_name != group_name) return {Hearing::another_group, {}};
  const std::size_t code_size = token.empty() ? 0 : store::proof_size;
  if (head.rest().size() < code_size) return {Hearing::forged, {}};
  const std::string_view content = datagram.substr(0, datagram.size() - code_size);
  if (!store::same_proof(datagram.substr(content.size()), code_of(content, token, place))) return {Hearing::forged, {}};
  base::ByteReader in(head.rest().substr(0, head.rest().size() - code_size));
  if (!read(in, said)) return {token.empty() ? Hearing::forged : Hearing::nothing, {}};
  return {Hearing::ours, std::move(said)};
}

HeardProcesses::HeardProcesses(int world_size) : most_(static_cast<std::size_t>(world_size) + most_strangers) {}

bool HeardProcesses::is_old(const Announcement& said) const {
  if (const auto last = last_number_.find(said.nonce); last != last_number_.end() && said.number <= last->second) return true;
  const auto other = others_.find(said.nonce);
  return other != others_.end() && said.number <= other->second.said.number;
}

void HeardProcesses::leave_out(const std::string& nonce) {
  if (of_other_jobs_.size() >= most_) of_other_jobs_.clear();  // those that are still there announce themselves again
  of_other_jobs_.insert(nonce);
  others_.erase(nonce);
}

/// Forgets the process that was heard longest ago among those that have not proven to be of this run.
bool HeardProcesses::make_room_for(const std::string& nonce) {
  if (others_.size() < most_ || others_.contains(nonce)) return true;
  ++too_many_;
  auto oldest = others_.end();
  for (auto each = others_.begin(); each != others_.end(); ++each) {
    if (!each->second.proven && (oldest == others_.end() || each->second.heard_at < oldest->second.heard_at)) oldest = each;
  }
  if (oldest == others_.end()) return false;
  others_.erase(oldest);
  return true;
}

bool HeardProcesses::take(Announcement&& said, const base::SocketAddress& source, bool is_fresh) {
  Other& other = others_[said.nonce];
  const bool changed = other.times == 0 || (is_fresh && !other.proven) || other.said.job != said.job || other.said.agreed != said.agreed;
  other.proven = other.proven || is_fresh;
  if (other.proven) last_number_[said.nonce] = said.number;
  other.said = std::move(said);
  other.source = source;
  other.heard_at = Clock::now();
  ++other.times;
  return changed;
}

void HeardProcesses::forget_the_silent() {
  const auto now = Clock::now();
  std::erase_if(others_, [&](const auto& each) { return now - each.second.heard_at > longest_silence; });
}

const HeardProcesses::Other* HeardProcesses::find(const std::string& nonce) const {
  const auto found = others_.find(nonce);
  return found == others_.end() ? nullptr : &found->second;
}

std::vector<const Announcement*> HeardProcesses::proven() const {
  std::vector<const Announcement*> all;
  for (const auto& [nonce, other] : others_) {
    if (other.proven) all.push_back(&other.said);
  }
  return all;
}

std::vector<std::uint64_t> HeardProcesses::next_echoes() {
  std::vector<std::uint64_t> echoes;
  auto next = others_.upper_bound(repeated_);
  for (std::size_t i = std::min(others_.size(), most_echoes); i > 0; --i, ++next) {
    if (next == others_.end()) next = others_.begin();
    echoes.push_back(echo_of(next->first));
    repeated_ = next->first;
  }
  return echoes;
}

std::string HeardProcesses::describe_unproven() const {
  std::string text;
  const auto unproven = std::ranges::count_if(others_, [](const auto& each) { return !each.second.proven; });
  if (unproven > 0) text += fmt::format("; {} others have not heard this process, or are records of an earlier run", unproven);
  if (too_many_ > 0) text += fmt::format("; {} datagrams came when too many others had been heard", too_many_);
  return text;
}

}  // namespace unisono::rendezvous
