#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "engines/shm/count_list.h"
#include "engines/shm/lockstep.h"

namespace unisono::engines::shm {

/// A collective whose ranks compare their counts, number by number, in the first step, before anything is consumed. Without counts there is nothing
/// more to compare than the signature.
class CountedTask : public LockstepTask {
 protected:
  CountedTask(Lockstep& engine, const CollectiveCall& call, std::size_t steps, std::size_t step_bytes, const BlockForm& form = {})
      : LockstepTask(engine, call, steps, step_bytes), form_(form) {}

  const Counts& counts() const { return call().counts; }
  const BlockForm& form() const { return form_; }
  /// Returns where the block of a rank begins, and how many elements it has; without counts all have the same length.
  std::size_t block(int r) const {
    const auto index = static_cast<std::size_t>(r);
    return counts().size() != 0 ? counts().before(index) : index * call().count;
  }
  std::size_t length(int r) const { return counts().size() != 0 ? counts()[static_cast<std::size_t>(r)] : call().count; }
  Line& first_line(int rank) const { return segment().line(rank, step_number(0)); }
  /// Puts this rank's counts where the others find them. `elements`: where these find its elements.
  void give_counts(ElementsIn elements) {
    if (counts().size() == 0) return;
    Line& line = first_line(rank());
    line.count_bytes = static_cast<std::uint8_t>(form_.count_bytes);
    line.elements = elements;
    const std::size_t each = form_.count_bytes > 0 ? form_.count_bytes : sizeof(std::size_t);
    std::byte* const to = form_.count_bytes > 0 ? line.payload : inbox(rank(), 0);
    write_counts(to, counts().span(), each);
    write_counts(to + counts().size() * each, call().recv_counts.span(), each);
  }
  /// Returns the counts of a rank that has arrived at the first step.
  CountList counts_given_by(int rank) const { return list_in(rank, 0); }
  CountList recv_counts_given_by(int rank) const { return list_in(rank, counts().size()); }

  bool disagrees(int other) const override { return !(CountList(counts().span()) == counts_given_by(other)); }
  Decision decide_between(const std::vector<int>& ranks) const override {
    std::vector<Ballot> ballots;
    for (const int r : ranks) {
      const CountList given = counts_given_by(r);
      ballots.push_back({.rank = segment().name_of(r), .key = list(given, given.size()), .call = "gives the counts " + list(given, 32)});
    }
    return decide(ballots);
  }

 private:
  static std::string list(const CountList& counts, std::size_t most) {
    std::string text = "[";
    for (std::size_t i = 0; i < std::min(counts.size(), most); ++i) {
      if (i > 0) text += ", ";
      text += std::to_string(counts[i]);
    }
    text += counts.size() > most ? ", …]" : "]";
    return text;
  }
  CountList list_in(int rank, std::size_t first) const {
    const Line& line = first_line(rank);
    const std::size_t each = line.count_bytes > 0 ? line.count_bytes : sizeof(std::size_t);
    return {(line.count_bytes > 0 ? line.payload : inbox(rank, 0)) + first * each, each, counts().size()};
  }

  BlockForm form_;
};

}  // namespace unisono::engines::shm
