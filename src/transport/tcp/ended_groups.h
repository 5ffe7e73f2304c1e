#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_set>

namespace unisono::transport {

/// The groups that ended last on this rank: what peers have sent for them before they knew is dropped when it comes. A peer knows soon, so the groups
/// that ended long before are forgotten: a program may make any number of them.
class EndedGroups {
 public:
  static constexpr std::size_t most = 4096;  // a group of the program's has three or four here

  bool contains(std::uint64_t group) const { return groups_.contains(group); }
  void insert(std::uint64_t group) {
    if (!groups_.insert(group).second) return;
    order_.push_back(group);
    if (order_.size() <= most) return;
    groups_.erase(order_.front());
    order_.pop_front();
  }

 private:
  std::unordered_set<std::uint64_t> groups_;
  std::deque<std::uint64_t> order_;
};

}  // namespace unisono::transport
