#include "transport/tcp/relay.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/bytes.h"
#include "unisono/error.h"

namespace unisono::transport {

WatchTree::WatchTree(const std::vector<int>& hosts)
    : parents_(hosts.size(), -1), children_(hosts.empty() ? 0 : hosts.size() - 1), first_children_(hosts.size() + 1, 0) {
  int host_count = 0;
  for (const int host : hosts) host_count = std::max(host_count, host + 1);
  std::vector<std::vector<int>> members(static_cast<std::size_t>(host_count));
  for (std::size_t r = 0; r < hosts.size(); ++r) members[static_cast<std::size_t>(hosts[r])].push_back(static_cast<int>(r));
  // By their first ranks, so that every parent has a lower rank than its children.
  std::erase_if(members, [](const auto& ranks) { return ranks.empty(); });
  std::ranges::sort(members, {}, [](const auto& ranks) { return ranks.front(); });
  std::vector<int> hung;  // all ranks but the first one, in the order in which they are children
  const auto hang = [&](int child, int parent) {
    parents_[static_cast<std::size_t>(child)] = parent;
    ++first_children_[static_cast<std::size_t>(parent) + 1];
    hung.push_back(child);
  };
  for (std::size_t h = 0; h < members.size(); ++h) {
    if (h > 0) hang(members[h].front(), members[(h - 1) / arity].front());
    for (std::size_t i = 1; i < members[h].size(); ++i) hang(members[h][i], members[h][(i - 1) / arity]);
  }
  std::partial_sum(first_children_.begin(), first_children_.end(), first_children_.begin());
  std::vector<std::uint32_t> next(first_children_.begin(), first_children_.end() - 1);
  for (const int child : hung) children_[next[static_cast<std::size_t>(parent(child))]++] = child;
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

constexpr std::size_t most_told_in_a_frame = longest_spread / 2;
static_assert(most_told_in_a_frame + longest_departure <= longest_spread);

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

void Relay::send(Peer& peer, FrameKind kind, std::uint64_t group, std::string_view payload) {
  peer.send_if_open({.kind = kind, .length = static_cast<std::uint32_t>(payload.size()), .group = group}, std::as_bytes(std::span(payload)));
  connections_.watch(peer);
}

void Relay::deliver(int from, std::uint64_t group, const std::string& text) {
  SharedState& shared = connections_.shared();
  if (shared.groups_over.contains(group)) return;
  shared.notices.push_back({from, group, text});
  shared.changed = true;
}

void Relay::handle_reports() {
  SharedState& shared = connections_.shared();
  for (const Report& report : std::exchange(shared.reports, {})) take(report);
  for (const int rank : std::exchange(shared.left, {})) record({.rank = rank});
  while (!new_departures_.empty()) send_new_departures();
}

void Relay::take(const Report& report) {
  try {
    if (report.kind == FrameKind::spread) return take_spread(report);
    for (const Departure& each : decode_departures(report.text, membership_.size())) take_departure(each, report.from);
  } catch (const ProtocolError& error) {
    Peer& peer = *connections_.find(report.from);
    if (!peer.is_open()) return;
    connections_.record(peer.lose(PeerFailed::disconnected, fmt::format("{} sent unexpected data: {}", peer.name(), error.message())));
  }
}

void Relay::handle_postponed() {
  for (const Report& report : std::exchange(postponed_, {})) take(report);
}

// ---- ranks that are gone ----------------------------------------------------------------------------------------

void Relay::record(const Departure& departure) {
  if (!membership_.record(departure)) return;
  new_departures_.push_back(departure.rank);
  owner_.on_departure(departure);
}

// The last notice of a rank that is connected with this one comes from that rank, behind its messages.
void Relay::take_departure(const Departure& departure, int from) {
  const int rank = departure.rank;
  const Peer* const peer = connections_.find(rank);
  if (!departure.lost && from != rank && owner_.may_be_connected_soon(rank)) {
    return postponed_.push_back({from, FrameKind::gone, 0, encode(std::span(&departure, 1))});
  }
  const bool reports_itself = peer != nullptr && peer->was_connected() && from != rank;
  const bool is_known = departure.lost || departure.text.empty() || reports_itself || (from != rank && membership_.absence_of(rank) == Absence::left);
  if (!is_known) deliver(rank, departure.group, departure.text);
  if (!reports_itself) take_last_notices(departure);
  record(departure);
}

void Relay::take_last_notices(const Departure& departure) {
  for (const auto& [group, payload] : departure.notices) {
    const SpreadNotice notice = decode_spread(payload, membership_.size());
    if (!notice.is_for(membership_.rank()) || connections_.shared().groups_over.contains(group) || !log_.is_new(group, notice.key)) continue;
    deliver(departure.rank, group, notice.text);
  }
}

void Relay::send_departures(Peer& peer, std::span<const Departure> departures) {
  while (!departures.empty()) {
    std::string told;
    std::size_t count = 0;
    for (; count < departures.size() && told.size() < most_told_in_a_frame; ++count) told += encode(departures.subspan(count, 1));
    send(peer, FrameKind::gone, 0, told);
    departures = departures.subspan(count);
  }
}

void Relay::send_new_departures() {
  std::vector<Departure> lost, all;
  for (const int rank : std::exchange(new_departures_, {})) {
    all.push_back(membership_.departures().at(rank));
    if (all.back().lost) lost.push_back(all.back());
  }
  for (Peer* const peer : connections_.open_ones()) send_departures(*peer, membership_.is_neighbour(peer->rank()) ? all : lost);
  handle_postponed();
  send_held_back();
}

// The neighbour hears a rank's last notices first, and of its departure then.
void Relay::send_history(Peer& peer) {
  for (const auto& [group, payload] : log_.kept()) send(peer, FrameKind::spread, group, payload);
  std::vector<Departure> known;
  for (const auto& [rank, departure] : membership_.departures()) known.push_back(departure);
  send_departures(peer, known);
}

// ---- notices ----------------------------------------------------------------------------------------------------

void Relay::announce(std::uint64_t group, std::span<const int> members, std::string_view text, Link::Announcement what, bool is_small) {
  if (what == Link::Announcement::goodbye) {  // the others learn it with the goodbye, from this rank or from its neighbours
    own_departure_.group = group;
    own_departure_.text = text;
    return;
  }
  const bool is_failure = what == Link::Announcement::failure;
  const int rank = membership_.rank();
  SpreadNotice notice{.origin = rank,
                      .key = is_failure ? key_of_failure : static_cast<std::uint64_t>(rank + 1) << 32 | ++last_spread_,
                      // The other members of a small group learn that this one has left when they connect with it, or with its goodbye.
                      .goes_on = what != Link::Announcement::leaving || !is_small,
                      .members = members_text(members, static_cast<std::size_t>(membership_.size())),
                      .text = std::string(text)};
  if (!log_.is_new(group, notice.key)) return;
  if (what == Link::Announcement::leaving) keep_for_goodbye(group, notice);
  // The messages before it must not come later than this: their connections are made first.
  if (is_failure || !owner_.has_waiting_messages()) return send_spread(group, notice, -1);
  held_back_.emplace_back(group, std::move(notice));
}

// A rank that learns that this one has left the job, and has not learned that it left the group, takes it for missing there. Of very many groups the
// latest are told. The text of the departure itself comes later.
void Relay::keep_for_goodbye(std::uint64_t group, const SpreadNotice& notice) {
  own_departure_.notices.emplace_back(group, encode(notice));
  while (own_departure().size() > longest_departure - longest_reason) own_departure_.notices.erase(own_departure_.notices.begin());
}

void Relay::send_held_back() {
  if (owner_.has_waiting_messages()) return;
  for (const auto& [group, notice] : std::exchange(held_back_, {})) send_spread(group, notice, -1);
}

void Relay::take_spread(const Report& report) {
  const SpreadNotice notice = decode_spread(report.text, membership_.size());
  if (notice.origin == membership_.rank()) return;
  const Peer* const origin = connections_.find(notice.origin);
  if (notice.key != key_of_failure && report.from != notice.origin) {
    if (origin != nullptr && origin->is_open()) return;
    if (owner_.may_be_connected_soon(notice.origin)) return postponed_.push_back(report);
  }
  if (!log_.is_new(report.group, notice.key)) return;
  if (notice.is_for(membership_.rank())) deliver(notice.origin, report.group, notice.text);
  if (notice.goes_on) send_spread(report.group, notice, report.from);
}

// `from`: the rank that it came from; -1: it is this one's own. Its own notices go to all ranks with which it is connected, since these learn them
// from it alone.
void Relay::send_spread(std::uint64_t group, const SpreadNotice& notice, int from) {
  const std::string payload = encode(notice);
  for (Peer* const peer : connections_.open_ones()) {
    const int rank = peer->rank();
    if (rank == from || rank == notice.origin || (!notice.goes_on && !notice.is_for(rank))) continue;
    if (from < 0 || notice.key == key_of_failure || membership_.is_neighbour(rank)) send(*peer, FrameKind::spread, group, payload);
  }
  log_.keep(group, payload, from < 0);
}

}  // namespace unisono::transport
