// What a TcpLink does where it does not connect with all ranks at once: it connects with its neighbours in a tree (WatchTree), and with others when a
// message is first sent to them or awaited from them. Where a rank is gone, those below it connect with the next one above. link_words.cpp has what
// neighbours tell each other.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/log.h"
#include "base/socket.h"
#include "transport/tcp/tcp_link.h"
#include "unisono/detail/switches.h"

namespace unisono::transport {
namespace {

constexpr std::chrono::seconds time_to_be_accepted(2);

/// `own`: an address of this rank.
base::SocketAddress parsed(const std::string& address, const std::string& own) {
  const auto space = address.find(' ');
  return base::resolve(address.substr(0, space), static_cast<std::uint16_t>(std::stoi(address.substr(space + 1))))
      .front()
      .as_seen_from(base::resolve(own, 0).front());
}

}  // namespace

void TcpLink::begin_on_demand(WatchTree tree, Caller caller, Acceptor acceptor) {
  demand_ = std::make_unique<OnDemand>(std::move(tree));
  demand_->farewell.rank = options_.rank;
  const std::string host = base::resolve(options_.address, 0).front().host_for_others();
  demand_->addresses[static_cast<std::size_t>(options_.rank)] = fmt::format("{} {}", host, acceptor.port());
  std::vector<int> others;
  for (int r = 0; r < static_cast<int>(options_.hosts.size()); ++r) {
    if (r != options_.rank) others.push_back(r);
  }
  demand_->connector = std::make_unique<Connector>(
      std::move(caller), std::move(acceptor), std::move(others), options_.timeout,
      Connector::Owner{.wants =
                           [this](int rank) {
                             const std::lock_guard lock(mutex_);
                             return is_wanted(rank);
                           },
                       .accepts =
                           [this](int rank) {
                             const std::lock_guard lock(mutex_);
                             if (is_wanted(rank)) demand_->accepted[rank] = base::Clock::now();
                             return is_wanted(rank);
                           },
                       .connected = [this](int rank, Established connection) { on_connected(rank, std::move(connection)); },
                       .failed = [this](int rank, const std::string& why) { on_failed(rank, why); },
                       .broken = [this](const std::string& why) { on_broken(why); }});
}

std::string TcpLink::address_known_of(int rank) const {
  if (!demand_) return {};
  const std::string& address = demand_->addresses[static_cast<std::size_t>(rank)];
  return address.empty() ? "an address that is not known yet" : base::describe(parsed(address, options_.address));
}

bool TcpLink::is_wanted(int rank) const {
  const Peer* const peer = find(rank);
  return has_heard_of(rank, Heard::nothing) && (peer == nullptr || !peer->was_connected());
}

Peer& TcpLink::new_peer(int rank) {
  Peer& peer = peer_of(rank);
  if (has_heard_of(rank, Heard::left)) peer.hear_that_it_left();
  if (has_heard_of(rank, Heard::lost)) {
    const Departure& loss = demand_->departures.at(rank);
    peer.lose(*loss.lost, loss.text);
  }
  return peer;
}

void TcpLink::dial(int rank, Connector::Patience patience) {
  const std::string& address = demand_->addresses[static_cast<std::size_t>(rank)];
  if (demand_->said_goodbye || address.empty()) return;
  demand_->dialled.insert(rank);
  demand_->connector->dial(rank, parsed(address, options_.address), patience);
}

// A message for that rank waits for a connection.
void TcpLink::need(const Peer& peer) {
  if (!demand_ || peer.was_connected() || peer.loss() || peer.has_left()) return;
  if (demand_->needed.insert(peer.rank()).second) dial(peer.rank(), Connector::Patience::usual);
}

// A message of that rank is waited for. As a rule that rank connects; where it does not, this one does at the next tick, and sees whether it is
// there.
void TcpLink::await(Peer& peer) {
  if (!demand_ || peer.was_connected() || std::exchange(peer.is_awaited, true)) return;
  demand_->awaited.insert(peer.rank());
}

void TcpLink::forget_attempts_at(int rank) {
  demand_->needed.erase(rank);
  demand_->dialled.erase(rank);
  demand_->accepted.erase(rank);
}

void TcpLink::say_farewell(Peer& peer) {
  // A peer that has left may still hand it on.
  if (demand_) write_word(peer, peer.last_writer(), FrameKind::gone, 0, encode(std::span(&demand_->farewell, 1)));
  peer.say_goodbye();
}

bool TcpLink::has_told_all() { return !demand_ || (demand_->held_back.empty() && demand_->dialled_parent < 0); }

// ---- the tree ---------------------------------------------------------------------------------------------------

// Connects with the rank that this one hangs on now. A rank above that refuses has left or died, which its own neighbours tell.
void TcpLink::reattach() {
  OnDemand& demand = *demand_;
  if (demand.said_goodbye) return;
  const int parent = demand.tree.parent_among(
      options_.rank, [&](int rank) { return !has_heard_of(rank, Heard::nothing) || demand.passed_over[static_cast<std::size_t>(rank)]; });
  if (parent == demand.dialled_parent) return;
  demand.dialled_parent = -1;
  if (parent < 0 || peer_of(parent).was_connected()) return;
  demand.dialled_parent = parent;
  dial(parent, Connector::Patience::none);
}

bool TcpLink::is_tree_neighbour(int rank) const {
  const auto is_gone = [&](int other) { return !has_heard_of(other, Heard::nothing); };
  const WatchTree& tree = demand_->tree;
  return tree.parent_among(options_.rank, is_gone) == rank || tree.parent_among(rank, is_gone) == options_.rank;
}

// Where this rank has a lost rank's place, the ranks below it connect with this one. Those that do not are lost as well: nobody else would notice.
void TcpLink::expect_orphans_of(int rank) {
  OnDemand& demand = *demand_;
  const auto is_gone = [&](int other) { return !has_heard_of(other, Heard::nothing); };
  const auto until = base::Clock::now() + detail::silence_limit();
  for (const int orphan : demand.tree.orphans_of(rank, is_gone)) {
    const Peer* const peer = find(orphan);
    const bool is_connected = peer != nullptr && peer->was_connected();
    if (orphan != options_.rank && !is_connected && demand.tree.parent_among(orphan, is_gone) == options_.rank) demand.orphans.emplace(orphan, until);
  }
}

void TcpLink::tick_on_demand(Time now) {
  OnDemand& demand = *demand_;
  for (const int rank : std::exchange(demand.awaited, {})) {
    if (is_wanted(rank)) dial(rank, Connector::Patience::usual);
  }
  std::erase_if(demand.accepted, [&](const auto& rank) { return now - rank.second > time_to_be_accepted; });  // that rank is gone since
  decide();
  for (const auto& [orphan, until] : std::exchange(demand.orphans, {})) {
    if (!is_wanted(orphan)) continue;
    if (now < until) {
      demand.orphans.emplace(orphan, until);
      continue;
    }
    hear({.rank = orphan,
          .lost = PeerFailed::silent,
          .text = fmt::format("rank {} ({}) has not connected with rank {} since the rank that watched it was lost", orphan, address_known_of(orphan),
                              options_.rank)});
  }
  reattach();
  hand_words_on();
}

// ---- what the connector reports ---------------------------------------------------------------------------------

void TcpLink::on_connected(int rank, Established connection) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_wanted(rank)) return;
    OnDemand& demand = *demand_;
    forget_attempts_at(rank);
    if (demand.dialled_parent == rank) demand.dialled_parent = -1;
    Peer& peer = peer_of(rank);
    open(peer, std::move(connection));
    greet(peer);
    if (demand.said_goodbye) {
      say_farewell(peer);
    } else {
      peer.send_waiting();
      release_held_back();
    }
    decide();
    pump(peer, base::Clock::now());  // bytes right behind a handshake were read with it, and wake nobody
    shared_.stirred = false;
  }
  after(true);
}

void TcpLink::on_failed(int rank, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_wanted(rank)) return;
    forget_attempts_at(rank);
    decide();  // its neighbours may have said that it has left
    Peer& peer = peer_of(rank);
    if (!is_wanted(rank)) {
      base::debug(why);
    } else if (peer.needs_connection()) {
      note(peer.lose(PeerFailed::disconnected, why));
    } else {
      base::debug(why);
      demand_->passed_over[static_cast<std::size_t>(rank)] = true;
      reattach();
    }
    decide();
    release_held_back();
    hand_words_on();
    shared_.stirred = false;
  }
  after(true);
}

void TcpLink::on_broken(const std::string& why) noexcept {
  try {
    throw Error("no connections can be made any more: " + why);
  } catch (const Error&) {
    fail();
  }
}

}  // namespace unisono::transport
