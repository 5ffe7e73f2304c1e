#include "transport/tcp/relay.h"

#include <algorithm>

#include <fmt/format.h>

namespace unisono::transport {
namespace {

constexpr std::size_t most_told_in_a_frame = longest_spread / 2;
static_assert(most_told_in_a_frame + longest_departure <= longest_spread);

}  // namespace

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
    connections_.record(peer.lose(PeerFailed::disconnected, fmt::format("{} sent what does not belong here: {}", peer.name(), error.message())));
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
