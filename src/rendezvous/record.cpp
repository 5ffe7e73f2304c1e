#include "rendezvous/record.h"

#include <unistd.h>

#include <charconv>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/host.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

constexpr std::size_t longest_record_field = 255, nonce_characters = 32;
constexpr std::size_t mark_characters = 16;  ///< 64 bits: two processes of a job do not have the same

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
  record.nonce = store::digest(store::fresh_nonce()).substr(0, nonce_characters);
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

std::string_view mark_of(const Record& record) { return std::string_view(record.nonce).substr(0, mark_characters); }

// A line for each rank, with its process and its mark. Before the ranks of another host there is a line that begins with a tab: with the host, or
// with its number where it stands further above.
std::string encode_members(std::span<const Record> records) {
  std::map<std::pair<std::string, std::string>, std::size_t> hosts;
  std::size_t current = 0;
  std::string text;
  for (const Record& record : records) {
    const auto [host, is_new] = hosts.emplace(std::pair(record.member.host, record.member.machine), hosts.size() + 1);
    if (is_new) text += fmt::format("\t{}\t{}\n", record.member.host, record.member.machine);
    else if (host->second != current) text += fmt::format("\t{}\n", host->second);
    current = host->second;
    text += fmt::format("{}\t{}\n", record.member.pid, mark_of(record));
  }
  return text;
}

std::vector<ListedMember> decode_members(std::string_view text) {
  const auto require = [](bool is_right) {
    if (!is_right) throw ProtocolError("the store holds a malformed list of members");
  };
  std::vector<std::pair<std::string, std::string>> hosts;
  std::size_t current = 0;
  std::vector<ListedMember> members;
  require(text.empty() || text.ends_with('\n'));
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto fields = split(text.substr(0, end), '\t');
    text.remove_prefix(end + 1);
    if (!fields.front().empty()) {
      require(fields.size() == 2 && current > 0);
      const auto& [host, machine] = hosts[current - 1];
      members.push_back({{static_cast<int>(members.size()), number<int>(fields[0]), host, machine}, std::string(fields[1])});
    } else if (fields.size() == 3) {
      hosts.emplace_back(fields[1], fields[2]);
      current = hosts.size();
    } else {
      require(fields.size() == 2);
      current = number<std::size_t>(fields[1]);
      require(current > 0 && current <= hosts.size());
    }
  }
  return members;
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
