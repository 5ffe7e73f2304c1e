#pragma once

#include <functional>
#include <vector>

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
  const std::vector<int>& children(int rank) const { return children_[static_cast<std::size_t>(rank)]; }

  using IsGone = std::function<bool(int rank)>;
  /// Returns the rank that a rank hangs on while some are gone: the nearest ancestor that is not, or, where all of them are, the lowest rank that is
  /// not. -1: it is that one itself. All ranks that are left are connected by these edges, whichever are gone.
  int parent_among(int rank, const IsGone& is_gone) const;
  /// Returns the ranks that lose their parent with this one, where those that are gone are replaced by their own children.
  std::vector<int> orphans_of(int rank, const IsGone& is_gone) const;

 private:
  std::vector<int> parents_;
  std::vector<std::vector<int>> children_;
};

}  // namespace unisono::transport
