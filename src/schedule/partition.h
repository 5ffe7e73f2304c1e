#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "schedule/schedule.h"

namespace unisono::schedule {

/// Consecutive elements, divided among the ranks of a problem: where the part of each begins. Even partitions take no memory, whatever the number of
/// parts.
class Partition {
 public:
  /// Divides `count` elements as evenly as possible, as `shares` does.
  static Partition even(std::size_t count, int parts) { return {count / unsigned_of(parts), count % unsigned_of(parts), parts}; }
  /// Gives each of the parts `count` elements.
  static Partition uniform(std::size_t count, int parts) { return {count, 0, parts}; }
  /// Takes the blocks of a collective: those of its counts, or blocks of `count` elements.
  static Partition blocks_of(const Problem& problem) {
    if (problem.counts.size() == 0) return uniform(problem.count, problem.size);
    Partition partition(0, 0, problem.size);
    partition.begins_.reserve(problem.counts.size() + 1);
    std::size_t begin = 0;
    for (const std::size_t count : problem.counts) {
      partition.begins_.push_back(begin);
      begin += count;
    }
    partition.begins_.push_back(begin);
    return partition;
  }

  int parts() const { return parts_; }
  /// Returns the place where a part begins; that of `parts()` is the end of the last one.
  std::size_t begin(int part) const {
    const auto i = static_cast<std::size_t>(part);
    return begins_.empty() ? i * quotient_ + std::min(i, remainder_) : begins_[i];
  }
  std::size_t count(int part) const { return begin(part + 1) - begin(part); }
  std::size_t total() const { return begin(parts_); }
  std::size_t largest() const {
    if (begins_.empty()) return quotient_ + (remainder_ > 0 ? 1 : 0);
    std::size_t most = 0;
    for (int i = 0; i < parts_; ++i) most = std::max(most, count(i));
    return most;
  }
  /// Returns the parts from `first` to the one before `last`, of elements that begin where `of` does.
  Slice range(const Slice& of, int first, int last) const { return of.part(begin(first), begin(last) - begin(first)); }
  Slice part(const Slice& of, int i) const { return range(of, i, i + 1); }

 private:
  Partition(std::size_t quotient, std::size_t remainder, int parts) : quotient_(quotient), remainder_(remainder), parts_(parts) {}
  static std::size_t unsigned_of(int parts) { return static_cast<std::size_t>(parts); }

  std::size_t quotient_, remainder_;
  int parts_;
  std::vector<std::size_t> begins_ = {};  // of uneven parts
};

}  // namespace unisono::schedule
