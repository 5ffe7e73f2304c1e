#include "rendezvous/record.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/host.h"
#include "base/printable.h"
#include "store/authentication.h"

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
  const auto value = base::whole_number<T>(text);
  if (!value) throw ProtocolError("the store holds a malformed record of a rank");
  return *value;
}

constexpr int fewest_mark_bytes = 4, most_mark_bytes = 8;
constexpr std::size_t longest_text = 255;  // of a record's field
constexpr std::size_t identifier_size = 36, packed_identifier_size = 16;
constexpr std::string_view digits = "0123456789abcdef";

std::uint64_t cut(std::uint64_t mark, int bytes) { return bytes == most_mark_bytes ? mark : mark & ((std::uint64_t{1} << (8 * bytes)) - 1); }

// A mark tells a process from all others of the job, and from an earlier one that had its seat.
std::uint64_t mark_of(const Record& record) { return base::stable_hash(record.nonce); }

/// Returns the fewest bytes by which the marks of these processes differ. Two marks of so many processes are rarely equal in 4 bytes, and practically
/// never in 8.
int bytes_that_differ(std::span<const Record> records) {
  for (int bytes = fewest_mark_bytes; bytes < most_mark_bytes; ++bytes) {
    std::vector<std::uint64_t> marks;
    for (const Record& record : records) marks.push_back(cut(mark_of(record), bytes));
    std::ranges::sort(marks);
    if (std::ranges::adjacent_find(marks) == marks.end()) return bytes;
  }
  return most_mark_bytes;
}

bool has_hyphen(std::size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; }

bool begins_with_identifier(std::string_view machine) {
  if (machine.size() < identifier_size) return false;
  for (std::size_t i = 0; i < identifier_size; ++i) {
    if (has_hyphen(i) ? machine[i] != '-' : digits.find(machine[i]) == std::string_view::npos) return false;
  }
  return true;
}

std::string packed(std::string_view identifier) {
  std::string bytes;
  std::size_t high = digits.size();
  for (std::size_t i = 0; i < identifier_size; ++i) {
    if (has_hyphen(i)) continue;
    const std::size_t digit = digits.find(identifier[i]);
    if (high == digits.size()) {
      high = digit;
    } else {
      bytes += static_cast<char>((high << 4) | digit);
      high = digits.size();
    }
  }
  return bytes;
}

std::string unpacked(std::string_view bytes) {
  std::string identifier;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    for (const std::size_t digit : {std::size_t{byte} >> 4, std::size_t{byte} & 15}) {
      if (has_hyphen(identifier.size())) identifier += '-';
      identifier += digits[digit];
    }
  }
  return identifier;
}

class Writing : public base::ByteWriter {
 public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) put(static_cast<std::uint8_t>((value & 0x7f) | 0x80));
    put(static_cast<std::uint8_t>(value));
  }
  void difference(std::int64_t value) { number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63)); }
  void mark(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) put(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  /// Writes a text after one that often begins alike.
  void text(std::string_view value, std::string& before) {
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(value, before).in1 - value.begin());
    number(common);
    number(value.size() - common);
    raw(value.substr(common));
    before = value;
  }
  void machine(std::string_view value, std::string& before) {
    const bool is_packed = begins_with_identifier(value);
    number(is_packed ? 1 : 0);
    if (is_packed) raw(packed(value));
    text(is_packed ? value.substr(identifier_size) : value, before);
  }
};

void require(bool is_right) {
  if (!is_right) throw ProtocolError("the store holds a malformed list of members");
}

class Reading {
 public:
  explicit Reading(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(raw(1).front());
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    require(false);
    return 0;
  }
  std::int64_t difference() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }
  std::uint64_t mark(int bytes) {
    std::uint64_t value = 0;
    const std::string_view taken = raw(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < taken.size(); ++i) value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return value;
  }
  std::string_view raw(std::size_t size) {
    require(size <= rest_.size());
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::string text(std::string& before) {
    const std::uint64_t common = number(), size = number();
    require(common <= before.size() && size <= longest_text && common + size <= longest_text);
    before.resize(common);
    before += raw(size);
    return before;
  }
  std::string machine(std::string& before) {
    const bool is_packed = number() != 0;
    std::string identifier;
    if (is_packed) identifier = unpacked(raw(packed_identifier_size));
    return identifier + text(before);
  }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

using Host = std::pair<base::SharedText, base::SharedText>;
Host host_of(const Member& member) { return {member.host, member.machine}; }

}  // namespace

Record own_record(std::optional<int> rank) {
  Record record;
  record.member = {rank.value_or(-1), ::getpid(), field(base::host_name()), field(base::machine_id())};
  record.nonce = store::fresh_name().substr(0, nonce_characters);
  return record;
}

std::string encode(const Record& record) {
  const Member& member = record.member;
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}", member.rank, member.pid, member.host.get(), member.machine.get(), record.nonce, record.presence);
}

Record decode(std::string_view text) {
  const auto fields = split(text, '\t');
  if (fields.size() != 6) throw ProtocolError("the store holds a malformed record of a rank");
  Record record;
  record.member = {number<int>(fields[0]), number<int>(fields[1]), fields[2], fields[3]};
  record.nonce = fields[4];
  record.presence = number<std::int64_t>(fields[5]);
  return record;
}

std::string where(const Member& member) { return fmt::format("{}:{}", member.host.get(), member.pid); }

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

// The format, where numbers are in base 128, the lowest digits first, and differences may be negative:
//
//   ranks, bytes of a mark
//   for each run of ranks on the same host:
//     the host's number, counted from 1 in the order in which hosts come first; 0: a new one, whose name and machine follow
//     ranks of the run
//     for each of them: the difference between its process and the one before, and its mark
//
// Names and machines of hosts are texts of which only the end differs from the host before. A machine begins with an identifier of the system's, 32
// hexadecimal digits, which are packed into 16 bytes.

std::string MemberList::encode(std::span<const Record> records) {
  const int mark_bytes = bytes_that_differ(records);
  Writing list;
  list.number(records.size());
  list.number(static_cast<std::uint64_t>(mark_bytes));
  std::map<Host, std::size_t> hosts;
  std::string name, machine;
  std::int64_t process = 0;
  while (!records.empty()) {
    const Host host = host_of(records.front().member);
    const auto [known, is_new] = hosts.emplace(host, hosts.size() + 1);
    list.number(is_new ? 0 : known->second);
    if (is_new) {
      list.text(host.first.get(), name);
      list.machine(host.second.get(), machine);
    }
    const auto end = std::ranges::find_if(records, [&](const Record& record) { return host_of(record.member) != host; });
    const auto run = static_cast<std::size_t>(end - records.begin());
    list.number(run);
    for (const Record& record : records.first(run)) {
      list.difference(record.member.pid - std::exchange(process, record.member.pid));
      list.mark(mark_of(record), mark_bytes);
    }
    records = records.subspan(run);
  }
  return list.take();
}

MemberList::MemberList(std::string_view text) { read(text); }

void MemberList::read(std::string_view text) {
  Reading list(text);
  const std::uint64_t ranks = list.number();
  mark_bytes_ = static_cast<int>(std::min<std::uint64_t>(list.number(), most_mark_bytes + 1));
  require(mark_bytes_ >= fewest_mark_bytes && mark_bytes_ <= most_mark_bytes);
  require(ranks <= list.left());  // each takes more than a byte
  members_.reserve(ranks);
  std::vector<Host> hosts;
  std::string name, machine;
  std::int64_t process = 0;
  while (list.left() > 0) {
    std::uint64_t host = list.number();
    if (host == 0) {
      std::string own_name = list.text(name);
      hosts.emplace_back(std::move(own_name), list.machine(machine));
      host = hosts.size();
    }
    require(host <= hosts.size());
    const std::uint64_t run = list.number();
    require(run > 0 && run <= ranks - members_.size());
    for (std::uint64_t i = 0; i < run; ++i) {
      const std::int64_t difference = list.difference();  // any number of 64 bits
      require(difference >= -process && difference <= std::numeric_limits<int>::max() - process);
      process += difference;
      const auto& [its_name, its_machine] = hosts[host - 1];
      members_.push_back({static_cast<int>(members_.size()), static_cast<int>(process), its_name, its_machine});
      marks_.push_back(list.mark(mark_bytes_));
    }
  }
  require(members_.size() == ranks);
}

bool MemberList::has_mark(std::size_t rank, std::uint64_t mark) const { return marks_[rank] == cut(mark, mark_bytes_); }

int MemberList::rank_of(const Record& record) const {
  const std::uint64_t mark = mark_of(record);
  const int given = record.member.rank;
  if (given >= 0) return static_cast<std::size_t>(given) < marks_.size() && has_mark(static_cast<std::size_t>(given), mark) ? given : -1;
  for (std::size_t rank = 0; rank < marks_.size(); ++rank) {
    if (has_mark(rank, mark)) return static_cast<int>(rank);
  }
  return -1;
}

}  // namespace unisono::rendezvous
