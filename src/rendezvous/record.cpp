#include "rendezvous/record.h"

#include <unistd.h>

#include <charconv>

#include <fmt/format.h>

#include "base/host.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

constexpr std::size_t longest_record_field = 255, nonce_characters = 32;

// Replaces control characters: a tab separates fields, and a newline separates records.
std::string field(std::string_view text) {
  std::string clean(text.substr(0, longest_record_field));
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return clean;
}

template <class T>
T number(std::string_view text) {
  T value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) throw ProtocolError("the store holds a malformed record of a rank");
  return value;
}

}  // namespace

Record own_record(std::optional<int> rank) {
  Record record;
  record.member = {rank.value_or(-1), ::getpid(), field(base::host_name()), field(base::machine_id())};
  record.nonce = store::fresh_name().substr(0, nonce_characters);
  return record;
}

std::string encode(const Record& record) {
  const Member& member = record.member;
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}", member.rank, member.pid, member.host, member.machine, record.nonce, record.presence);
}

Record decode(std::string_view text) {
  const auto fields = split(text, '\t');
  if (fields.size() != 6) throw ProtocolError("the store holds a malformed record of a rank");
  Record record;
  record.member = {number<int>(fields[0]), number<int>(fields[1]), std::string(fields[2]), std::string(fields[3])};
  record.nonce = fields[4];
  record.presence = number<std::int64_t>(fields[5]);
  return record;
}

std::string where(const Member& member) { return fmt::format("{}:{}", member.host, member.pid); }

std::string list(const std::vector<int>& ranks) {
  constexpr std::size_t most = 32;  // ranks that a message names
  std::string text;
  for (std::size_t i = 0; i < std::min(most, ranks.size()); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > most) text += fmt::format(" and {} more", ranks.size() - most);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace unisono::rendezvous
