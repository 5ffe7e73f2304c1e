#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "transport/tcp/spread.h"
#include "transport/tcp/watch_tree.h"

namespace unisono::transport {

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

}  // namespace unisono::transport
