#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/tcp/connections.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/link.h"

namespace unisono::transport {

/// The tree by whose edges ranks watch each other where they do not connect with all: the first ranks of the hosts are a tree, and below each of them
/// the ranks of its host are another one. A rank has at most two times `arity` children and a parent, whose rank is lower than its own.
///
/// Eight children on each level: a rank has 17 neighbours at most, and 100,000 ranks on 12,500 hosts are 5 + 1 steps deep. With 16 children the tree
/// would be a step less deep, and a first rank would have twice the connections and heartbeats; a step costs a notice some 20 µs.
class WatchTree {
 public:
  static constexpr int arity = 8;

  /// `hosts`: of each rank, the number of its host.
  explicit WatchTree(const std::vector<int>& hosts);

  int size() const { return static_cast<int>(parents_.size()); }
  /// Returns -1 for rank 0.
  int parent(int rank) const { return parents_[static_cast<std::size_t>(rank)]; }
  std::span<const int> children(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return std::span(children_).subspan(first_children_[r], first_children_[r + 1] - first_children_[r]);
  }

  using IsGone = std::function<bool(int rank)>;
  /// Returns the rank that a rank hangs on while some are gone: the nearest ancestor that is not, or, where all of them are, the lowest rank that is
  /// not. -1: it is that one itself. All ranks that are left are connected by these edges, whichever are gone.
  int parent_among(int rank, const IsGone& is_gone) const;
  /// Returns the ranks that lose their parent with this one, where those that are gone are replaced by their own children.
  std::vector<int> orphans_of(int rank, const IsGone& is_gone) const;

 private:
  std::vector<int> parents_;
  std::vector<int> children_;                  ///< of all ranks, those of rank 0 first
  std::vector<std::uint32_t> first_children_;  ///< by rank, where its children begin; then their number
};

/// A notice that ranks hand on to their neighbours, because its sender is not connected with all ranks that it is for.
struct SpreadNotice {
  int origin = -1;
  std::uint64_t key = 0;     ///< by which a rank knows a notice of the group that it has had already
  bool goes_on = true;       ///< ranks hand it on; else it is for those alone that the origin is connected with
  std::string members = {};  ///< as members_text() has them; empty: it is for all ranks
  std::string text = {};

  bool is_for(int rank) const;
};
/// The key of the notice that a group is over: whichever comes first is the only one that is handed on.
inline constexpr std::uint64_t key_of_failure = 1;

std::string encode(const SpreadNotice& notice);
/// Throws ProtocolError where it is none.
SpreadNotice decode_spread(std::string_view payload, int ranks);
/// Returns a text for these ranks of the world: their numbers, or a bit for each rank where that is shorter; empty where they are all ranks.
std::string members_text(std::span<const int> members, std::size_t ranks);

/// A spread notice as it is handed on: its group, and what encode(const SpreadNotice&) returns.
using SpreadEntry = std::pair<std::uint64_t, std::string>;

/// What a rank tells of one that is gone.
struct Departure {
  int rank = -1;
  std::optional<PeerFailed::Cause> lost = {};  ///< none: it has left
  std::string text = {};                       ///< how it was lost, or its last notice
  std::uint64_t group = 0;                     ///< for which that notice is
  std::vector<SpreadEntry> notices = {};       ///< that it left other groups
};
/// The bytes of a text, the rest of which is cut off, and of an encoded departure.
inline constexpr std::size_t longest_reason = 512, longest_departure = longest_spread / 4;
std::string encode(std::span<const Departure> departures);
/// Throws ProtocolError where it is none.
std::vector<Departure> decode_departures(std::string_view payload, int ranks);

/// The notices that a rank has had lately: it hands each on once. Those that a new neighbour may have missed are kept.
class SpreadLog {
 public:
  /// Returns true the first time that it is asked for this notice of the group.
  bool is_new(std::uint64_t group, std::uint64_t key);
  void keep(std::uint64_t group, std::string payload, bool is_own);
  /// Returns what a new neighbour is told.
  std::vector<SpreadEntry> kept() const;

 private:
  static constexpr std::size_t most_known = std::size_t{1} << 16, most_kept = 64;
  std::set<std::pair<std::uint64_t, std::uint64_t>> known_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> order_;  ///< of those, the oldest first
  std::deque<SpreadEntry> own_, others_;
};

/// What a rank knows of another one, from itself or from others.
enum class Absence : std::uint8_t { none, left, lost };

/// Which ranks are gone, and the tree of those that are left.
class Membership {
 public:
  Membership(int rank, WatchTree tree)
      : rank_(rank),
        tree_(std::move(tree)),
        absences_(static_cast<std::size_t>(tree_.size()), Absence::none),
        passed_over_(static_cast<std::size_t>(tree_.size()), false) {}

  int rank() const { return rank_; }
  int size() const { return tree_.size(); }
  const WatchTree& tree() const { return tree_; }
  Absence absence_of(int rank) const { return absences_[static_cast<std::size_t>(rank)]; }
  bool is_gone(int rank) const { return absence_of(rank) != Absence::none; }
  /// Notes that a rank is gone. Returns false where it is this one, or known already.
  bool record(const Departure& departure);
  const std::map<int, Departure>& departures() const { return departures_; }

  /// Notes that a rank above this one does not answer: it may have left.
  void pass_over(int rank) { passed_over_[static_cast<std::size_t>(rank)] = true; }
  /// Returns the rank with which this one connects in the tree; -1: it is the first one.
  int parent() const {
    return tree_.parent_among(rank_, [this](int rank) { return is_gone(rank) || passed_over_[static_cast<std::size_t>(rank)]; });
  }
  bool is_neighbour(int rank) const { return parent_of(rank_) == rank || parent_of(rank) == rank_; }
  /// Returns the ranks that have lost their parent with this one, and have this rank as their parent now.
  std::vector<int> adopted_from(int rank) const;

 private:
  int parent_of(int rank) const {
    return tree_.parent_among(rank, [this](int other) { return is_gone(other); });
  }

  const int rank_;
  const WatchTree tree_;
  std::vector<Absence> absences_;        ///< by rank
  std::vector<bool> passed_over_;        ///< by rank
  std::map<int, Departure> departures_;  ///< of those that are gone
};

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
