#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/tcp/connections.h"
#include "transport/tcp/membership.h"

namespace unisono::transport {

/// What makes the connections on demand.
class RelayOwner {
 public:
  virtual ~RelayOwner() = default;
  /// Returns true for a rank that may be connected with this one soon, and then reports itself.
  virtual bool may_be_connected_soon(int rank) const = 0;
  /// Returns true while messages wait for their connections.
  virtual bool has_waiting_messages() const = 0;
  /// Called once for each rank that is gone.
  virtual void on_departure(const Departure& departure) = 0;
};

/// What ranks that are not all connected with each other report of others, from neighbour to neighbour: which ranks are gone, and notices to ranks
/// with which their sender is not connected. Guarded by the link's mutex.
///
/// A rank hands each report on once. The loss of a rank, and the failure of a group, go over all connections, everything else over those of the tree.
/// A rank believes its own connection with a rank first: only of one with which it is not connected does it learn from others, and so it never takes
/// a goodbye for earlier than the messages before it. (Flooding with duplicates removed, as reliable broadcasts do it: Hadzilacos and Toueg 1994.
/// Where a rank of the tree is gone, its neighbours notice by themselves, so no part of the tree depends on another one to learn of it; a new
/// neighbour is told what was handed on lately.)
class Relay {
 public:
  Relay(Connections& connections, Membership& membership, RelayOwner& owner) : connections_(connections), membership_(membership), owner_(owner) {
    own_departure_.rank = membership.rank();
  }

  /// Sends this rank's notice. `is_small`: the group is, so that its ranks are connected where they need it.
  void announce(std::uint64_t group, std::span<const int> members, std::string_view text, Link::Announcement what, bool is_small);
  /// Notes that a rank is gone.
  void record(const Departure& departure);
  /// Handles what peers have reported, and hands it on.
  void handle_reports();
  /// Handles the reports of ranks that were about to be connected with this one.
  void handle_postponed();
  /// Sends the notices that have waited for the messages before them.
  void send_held_back();
  bool has_held_back() const { return !held_back_.empty(); }
  /// Tells a new neighbour what it may have missed.
  void send_history(Peer& peer);
  /// Returns what this rank's peers tell others with its goodbye.
  std::string own_departure() const { return encode(std::span(&own_departure_, 1)); }

 private:
  void take(const Report& report);
  void take_departure(const Departure& departure, int from);
  void take_last_notices(const Departure& departure);
  void take_spread(const Report& report);
  void send(Peer& peer, FrameKind kind, std::uint64_t group, std::string_view payload);
  void send_departures(Peer& peer, std::span<const Departure> departures);
  void send_new_departures();
  void send_spread(std::uint64_t group, const SpreadNotice& notice, int from);
  void deliver(int from, std::uint64_t group, const std::string& text);
  void keep_for_goodbye(std::uint64_t group, const SpreadNotice& notice);

  Connections& connections_;
  Membership& membership_;
  RelayOwner& owner_;
  Departure own_departure_;
  std::vector<int> new_departures_;  ///< ranks of which others have not been told yet
  SpreadLog log_;
  std::uint64_t last_spread_ = 0;
  std::deque<std::pair<std::uint64_t, SpreadNotice>> held_back_;  ///< own notices that wait for messages before them, with their groups
  std::vector<Report> postponed_;                                 ///< of ranks that may be connected with this one, and report themselves then
};

}  // namespace unisono::transport
