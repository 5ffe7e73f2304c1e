// What the ranks of a TcpLink that connects on demand tell each other about others, from neighbour to neighbour: which ranks are gone, and notices to
// ranks that their sender is not connected with.
//
// A rank hands each word on once. The loss of a rank, and the failure of a group, go over all connections, everything else over those of the tree. A
// rank believes its own connection with a rank first: only of one that it is not connected with it hears from others, and so it never takes a goodbye
// for earlier than the messages before it. (Flooding with duplicates removed, as reliable broadcasts do it: Hadzilacos and Toueg 1994. Where a rank
// of the tree is gone, its neighbours notice by themselves, so no part of the tree depends on another one to hear of it; a new neighbour is told what
// went round lately.)

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error_text.h"
#include "transport/tcp/tcp_link.h"

namespace unisono::transport {
namespace {

constexpr std::size_t most_told_in_a_frame = longest_spread / 2;
static_assert(most_told_in_a_frame + longest_departure <= longest_spread);

}  // namespace

void TcpLink::write_word(Peer& peer, FrameKind kind, std::uint64_t group, std::string_view payload) {
  write_word(peer, peer.writer(), kind, group, payload);
}

void TcpLink::write_word(Peer& peer, FrameWriter* writer, FrameKind kind, std::uint64_t group, std::string_view payload) {
  if (writer == nullptr) return;
  writer->write(peer.connection(), {.kind = kind, .length = static_cast<std::uint32_t>(payload.size()), .group = group},
                std::as_bytes(std::span(payload)));
  watch(peer);
}

// ---- ranks that are gone ----------------------------------------------------------------------------------------

void TcpLink::hear(const Departure& departure) {
  OnDemand& demand = *demand_;
  const int rank = departure.rank;
  Heard& heard = demand.heard[static_cast<std::size_t>(rank)];
  if (rank == options_.rank || heard != Heard::nothing) return;
  heard = departure.lost ? Heard::lost : Heard::left;
  demand.fresh.push_back(rank);
  forget_attempts_at(rank);
  demand.connector->forget(rank);
  shared_.stirred = true;
  Peer* const peer = find(rank);
  const bool is_first_hand = peer != nullptr && peer->was_connected();
  demand.departures.emplace(rank, departure);
  if (departure.lost) {
    if (!is_first_hand) {
      if (peer != nullptr) peer->lose(*departure.lost, departure.text);
      if (!loss_) loss_ = Loss{rank, *departure.lost, departure.text};
      any_loss_.store(true, std::memory_order_release);
    }
    expect_orphans_of(rank);
    reattach();
  } else if (peer != nullptr && !is_first_hand) {
    peer->hear_that_it_left();
  }
}

void TcpLink::hand_words_on() {
  for (const Word& word : std::exchange(shared_.words, {})) take_word(word);
  for (const int rank : std::exchange(shared_.left, {})) hear({.rank = rank});
  if (!demand_->fresh.empty()) tell_departures();
  if (!shared_.notices.empty()) has_notices_.store(true);
}

void TcpLink::take_word(const Word& word) {
  try {
    if (word.kind == FrameKind::spread) return take_spread(word);
    for (const Departure& each : decode_departures(word.text, demand_->tree.size())) take_departure(each, word.from);
  } catch (const ProtocolError& error) {
    Peer& peer = peer_of(word.from);
    if (peer.is_open()) note(peer.lose(PeerFailed::disconnected, fmt::format("{} sent what does not belong here: {}", peer.name(), error.message())));
  }
}

// The last notice of a rank that is connected with this one comes from that rank, behind its messages.
void TcpLink::take_departure(const Departure& departure, int from) {
  const int rank = departure.rank;
  const Peer* const peer = find(rank);
  if (!departure.lost && from != rank && may_be_connected_soon(rank)) {
    return demand_->undecided.push_back({from, FrameKind::gone, 0, encode(std::span(&departure, 1))});
  }
  const bool tells_it_itself = peer != nullptr && peer->was_connected() && from != rank;
  const bool is_told = departure.lost || departure.text.empty() || tells_it_itself || (from != rank && has_heard_of(rank, Heard::left));
  if (!is_told && !shared_.groups_over.contains(departure.group)) shared_.notices.push_back({rank, departure.group, departure.text});
  if (!tells_it_itself) take_last_notices(departure);
  hear(departure);
}

void TcpLink::take_last_notices(const Departure& departure) {
  for (const auto& [group, payload] : departure.notices) {
    const SpreadNotice notice = decode_spread(payload, demand_->tree.size());
    if (!notice.is_for(options_.rank) || shared_.groups_over.contains(group) || !demand_->spreads.is_new(group, notice.key)) continue;
    shared_.notices.push_back({departure.rank, group, notice.text});
  }
}

void TcpLink::tell(Peer& peer, std::span<const Departure> departures) {
  while (!departures.empty()) {
    std::string told;
    std::size_t count = 0;
    for (; count < departures.size() && told.size() < most_told_in_a_frame; ++count) told += encode(departures.subspan(count, 1));
    write_word(peer, FrameKind::gone, 0, told);
    departures = departures.subspan(count);
  }
}

void TcpLink::tell_departures() {
  std::vector<Departure> lost, all;
  for (const int rank : std::exchange(demand_->fresh, {})) {
    all.push_back(demand_->departures.at(rank));
    if (all.back().lost) lost.push_back(all.back());
  }
  for (Peer* const peer : open_) {
    tell(*peer, is_tree_neighbour(peer->rank()) ? all : lost);
  }
  decide();
  release_held_back();
}

// A new neighbour may have missed what went round before. It hears of a rank's last notices first, and of its departure then.
void TcpLink::greet(Peer& peer) {
  for (const auto& [group, payload] : demand_->spreads.kept()) write_word(peer, FrameKind::spread, group, payload);
  std::vector<Departure> known;
  for (const auto& [rank, departure] : demand_->departures) known.push_back(departure);
  tell(peer, known);
}

// ---- notices ----------------------------------------------------------------------------------------------------

void TcpLink::announce(std::uint64_t group, std::span<const int> members, std::string_view text, Announcement what) {
  const bool is_small = members.size() <= options_.most_eager;
  const std::unique_lock lock(mutex_);
  if (!demand_ || (what == Announcement::call && is_small)) {
    for (const int rank : members) {
      Peer& peer = connected(rank);
      peer.notify(group, text);
      need(peer);
      watch(peer);
    }
    return;
  }
  OnDemand& demand = *demand_;
  if (what == Announcement::goodbye) {  // the others hear it with the goodbye, from this rank or from its neighbours
    demand.farewell.group = group;
    demand.farewell.text = text;
    return;
  }
  const bool is_failure = what == Announcement::failure;
  SpreadNotice notice{.origin = options_.rank,
                      .key = is_failure ? key_of_failure : static_cast<std::uint64_t>(options_.rank + 1) << 32 | ++demand.last_spread,
                      // The other members of a small group learn that this one has left when they connect with it, or with its goodbye.
                      .goes_on = what != Announcement::leaving || !is_small,
                      .members = members_text(members, options_.hosts.size()),
                      .text = std::string(text)};
  if (demand.said_goodbye || !demand.spreads.is_new(group, notice.key)) return;
  if (what == Announcement::leaving) keep_for_goodbye(group, notice);
  // The messages before it must not come later than this: their connections are made first.
  if (is_failure || demand.needed.empty()) return send_spread(group, notice, -1);
  demand.held_back.emplace_back(group, std::move(notice));
}

// Whoever hears that this rank has left the job, and has not heard that it left the group, takes it for missing there. Of very many groups the latest
// are told. The text of the farewell itself comes later.
void TcpLink::keep_for_goodbye(std::uint64_t group, const SpreadNotice& notice) {
  Departure& farewell = demand_->farewell;
  farewell.notices.emplace_back(group, encode(notice));
  while (encode(std::span(&farewell, 1)).size() > longest_departure - longest_reason) farewell.notices.erase(farewell.notices.begin());
}

void TcpLink::release_held_back() {
  if (!demand_->needed.empty()) return;
  for (const auto& [group, notice] : std::exchange(demand_->held_back, {})) send_spread(group, notice, -1);
}

void TcpLink::take_spread(const Word& word) {
  const SpreadNotice notice = decode_spread(word.text, demand_->tree.size());
  if (notice.origin == options_.rank) return;
  const Peer* const origin = find(notice.origin);
  if (notice.key != key_of_failure && word.from != notice.origin) {
    if (origin != nullptr && origin->is_open()) return;
    if (may_be_connected_soon(notice.origin)) return demand_->undecided.push_back(word);
  }
  if (!demand_->spreads.is_new(word.group, notice.key)) return;
  if (notice.is_for(options_.rank) && !shared_.groups_over.contains(word.group)) {
    shared_.notices.push_back({notice.origin, word.group, notice.text});
    shared_.stirred = true;
  }
  if (notice.goes_on) send_spread(word.group, notice, word.from);
}

// Looks again at the notices of ranks that were about to be connected with this one.
void TcpLink::decide() {
  for (const Word& word : std::exchange(demand_->undecided, {})) take_word(word);
}

// `from`: the rank that it came from; -1: it is this one's own. Its own notices go to all that it is connected with, since these hear them from it
// alone.
void TcpLink::send_spread(std::uint64_t group, const SpreadNotice& notice, int from) {
  const std::string payload = encode(notice);
  for (Peer* const peer : open_) {
    const int rank = peer->rank();
    if (rank == from || rank == notice.origin || (!notice.goes_on && !notice.is_for(rank))) continue;
    if (from < 0 || notice.key == key_of_failure || is_tree_neighbour(rank)) write_word(*peer, FrameKind::spread, group, payload);
  }
  demand_->spreads.keep(group, payload, from < 0);
}

}  // namespace unisono::transport
