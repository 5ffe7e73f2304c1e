#include "transport/tcp/membership.h"

#include <algorithm>
#include <cstddef>

#include "base/bytes.h"
#include "unisono/error.h"

namespace unisono::transport {

WatchTree::WatchTree(const std::vector<int>& hosts) : parents_(hosts.size(), -1), children_(hosts.size()) {
  int host_count = 0;
  for (const int host : hosts) host_count = std::max(host_count, host + 1);
  std::vector<std::vector<int>> members(static_cast<std::size_t>(host_count));
  for (std::size_t r = 0; r < hosts.size(); ++r) members[static_cast<std::size_t>(hosts[r])].push_back(static_cast<int>(r));
  // By their first ranks, so that every parent has a lower rank than its children.
  std::erase_if(members, [](const auto& ranks) { return ranks.empty(); });
  std::ranges::sort(members, {}, [](const auto& ranks) { return ranks.front(); });
  const auto hang = [&](int child, int parent) {
    parents_[static_cast<std::size_t>(child)] = parent;
    children_[static_cast<std::size_t>(parent)].push_back(child);
  };
  for (std::size_t h = 0; h < members.size(); ++h) {
    if (h > 0) hang(members[h].front(), members[(h - 1) / arity].front());
    for (std::size_t i = 1; i < members[h].size(); ++i) hang(members[h][i], members[h][(i - 1) / arity]);
  }
}

int WatchTree::parent_among(int rank, const IsGone& is_gone) const {
  for (int above = parent(rank); above >= 0; above = parent(above)) {
    if (!is_gone(above)) return above;
  }
  for (int lowest = 0; lowest < size(); ++lowest) {
    if (lowest == rank) return -1;
    if (!is_gone(lowest)) return lowest;
  }
  return -1;
}

std::vector<int> WatchTree::orphans_of(int rank, const IsGone& is_gone) const {
  std::vector<int> orphans;
  for (const int child : children(rank)) {
    if (!is_gone(child)) {
      orphans.push_back(child);
      continue;
    }
    const std::vector<int> below = orphans_of(child, is_gone);
    orphans.insert(orphans.end(), below.begin(), below.end());
  }
  return orphans;
}

namespace {

constexpr std::uint8_t goes_on_flag = 1;
constexpr std::uint8_t has_left = 0xff;
constexpr char as_bits = 'b', as_numbers = 'n';  ///< the beginning of a text for ranks

}  // namespace

bool SpreadNotice::is_for(int rank) const {
  if (members.empty()) return true;
  base::ByteReader bytes(members);
  if (bytes.get<char>() == as_bits) {
    const std::string_view bits = bytes.rest();
    const auto byte = static_cast<std::size_t>(rank) / 8;
    return byte < bits.size() && (static_cast<unsigned char>(bits[byte]) >> (rank % 8) & 1) != 0;
  }
  while (!bytes.rest().empty() && bytes.ok()) {
    if (bytes.get<std::int32_t>() == rank && bytes.ok()) return true;
  }
  return false;
}

std::string members_text(std::span<const int> members, std::size_t ranks) {
  if (members.size() == ranks) return {};
  base::ByteWriter bytes;
  if (members.size() * sizeof(std::int32_t) < (ranks + 7) / 8) {
    bytes.put(as_numbers);
    for (const int rank : members) bytes.put(static_cast<std::int32_t>(rank));
    return bytes.take();
  }
  std::string bits((ranks + 7) / 8, '\0');
  for (const int rank : members) {
    char& byte = bits.at(static_cast<std::size_t>(rank) / 8);
    byte = static_cast<char>(static_cast<unsigned char>(byte) | 1U << (rank % 8));
  }
  return bytes.put(as_bits).raw(bits).take();
}

std::string encode(const SpreadNotice& notice) {
  base::ByteWriter bytes;
  bytes.put(static_cast<std::int32_t>(notice.origin)).put(notice.key).put(static_cast<std::uint8_t>(notice.goes_on ? goes_on_flag : 0));
  return bytes.text(notice.members).raw(notice.text).take();
}

SpreadNotice decode_spread(std::string_view payload, int ranks) {
  base::ByteReader bytes(payload);
  SpreadNotice notice;
  notice.origin = bytes.get<std::int32_t>();
  notice.key = bytes.get<std::uint64_t>();
  notice.goes_on = bytes.get<std::uint8_t>() == goes_on_flag;
  notice.members = bytes.text();
  notice.text = bytes.rest();
  if (!bytes.ok() || notice.origin < 0 || notice.origin >= ranks) throw ProtocolError("a malformed notice of another rank");
  return notice;
}

std::string encode(std::span<const Departure> departures) {
  base::ByteWriter bytes;
  for (const Departure& each : departures) {
    bytes.put(static_cast<std::int32_t>(each.rank)).put(each.lost ? static_cast<std::uint8_t>(*each.lost) : has_left);
    bytes.put(each.group).text(std::string_view(each.text).substr(0, longest_reason)).put(static_cast<std::uint32_t>(each.notices.size()));
    for (const auto& [group, payload] : each.notices) bytes.put(group).text(payload);
  }
  return bytes.take();
}

std::vector<Departure> decode_departures(std::string_view payload, int ranks) {
  base::ByteReader bytes(payload);
  std::vector<Departure> departures;
  while (!bytes.rest().empty()) {
    const std::size_t before = bytes.rest().size();
    Departure& each = departures.emplace_back();
    each.rank = bytes.get<std::int32_t>();
    const auto cause = bytes.get<std::uint8_t>();
    if (cause != has_left) each.lost = cause == static_cast<std::uint8_t>(PeerFailed::silent) ? PeerFailed::silent : PeerFailed::disconnected;
    each.group = bytes.get<std::uint64_t>();
    each.text = bytes.text();
    for (auto left = bytes.get<std::uint32_t>(); left > 0 && bytes.ok(); --left) {
      const auto group = bytes.get<std::uint64_t>();
      const std::string text(bytes.text());
      const SpreadNotice notice = decode_spread(text, ranks);
      if (notice.origin != each.rank || notice.key == key_of_failure)
        throw ProtocolError("a rank that is gone did not say that when it left a group");
      each.notices.emplace_back(group, text);
    }
    if (before - bytes.rest().size() > longest_departure) throw ProtocolError("a rank that is gone has left too much behind");
    if (!bytes.ok() || each.rank < 0 || each.rank >= ranks) throw ProtocolError("a malformed list of ranks that are gone");
  }
  return departures;
}

bool SpreadLog::is_new(std::uint64_t group, std::uint64_t key) {
  if (!known_.emplace(group, key).second) return false;
  order_.emplace_back(group, key);
  if (order_.size() > most_known) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

void SpreadLog::keep(std::uint64_t group, std::string payload, bool is_own) {
  auto& entries = is_own ? own_ : others_;
  entries.emplace_back(group, std::move(payload));
  if (entries.size() > most_kept) entries.pop_front();
}

std::vector<SpreadEntry> SpreadLog::kept() const {
  std::vector<SpreadEntry> all(others_.begin(), others_.end());
  all.insert(all.end(), own_.begin(), own_.end());
  return all;
}

bool Membership::record(const Departure& departure) {
  Absence& absence = absences_[static_cast<std::size_t>(departure.rank)];
  if (departure.rank == rank_ || absence != Absence::none) return false;
  absence = departure.lost ? Absence::lost : Absence::left;
  departures_.emplace(departure.rank, departure);
  return true;
}

std::vector<int> Membership::adopted_from(int rank) const {
  std::vector<int> orphans = tree_.orphans_of(rank, [this](int other) { return is_gone(other); });
  std::erase_if(orphans, [this](int orphan) { return orphan == rank_ || parent_of(orphan) != rank_; });
  return orphans;
}

}  // namespace unisono::transport
