#include "rendezvous/announcement.h"

#include <algorithm>

#include <fmt/format.h>

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

namespace {

using base::Clock;

// A process that was silent for so many pauses counts as gone. It is known again when it announces itself again.
constexpr auto longest_silence = 20 * longest_pause;
// The number of other processes that are remembered beside as many as there are ranks: without a token, any process can claim to be one.
constexpr std::size_t most_strangers = 1024;

}  // namespace

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
