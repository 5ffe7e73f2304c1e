#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/shm/blocks.h"

namespace unisono::engines::shm {

/// Each rank knows only the counts that it sends and expects itself. It computes from the counts of the others, in the first step, how many steps
/// they need and where its share lies in their slots. A rank that gives the others much leaves it in its buffer where they reach that (DirectAccess),
/// whatever the others do: they read it in the first step, and the second one tells it that they have.
class AllToAllV : public SharedBlockTask {
 public:
  AllToAllV(Lockstep& engine, const CollectiveCall& call) : SharedBlockTask(engine, call, engine.rank()) {}

 private:
  void produce(std::size_t k) override {
    if (k == 0) {  // its turn has come
      stays_ = form().elements != ElementsIn::line && engine().direct().leaves_in_buffer(call());
      give_counts(stays_ ? ElementsIn::buffer : form().elements);
    }
    if (!stays_) put_shares(k);
  }
  bool may_go_on() const override { return engine().direct().holds(); }

  void consume(std::size_t k) override {
    if (k == 0) learn();
    const Counts& expected = call().recv_counts;
    std::size_t to = expected.before(static_cast<std::size_t>(rank()));
    for (int i = 0; i < size(); ++i) {
      const int from = engine().rank_after(i);  // each starts with another rank
      if (from == 0) to = 0;
      if (k == 0) take_first(from, to);
      else if (!from_.empty()) take_from_slot(from, to, k);
      to += expected[static_cast<std::size_t>(from)];
    }
  }
  /// Takes the elements of a rank that come in the first step; `to`: where its block begins here.
  void take_first(int from, std::size_t to) {
    const ElementsIn elements = first_line(from).elements;
    if (from == rank()) return result().copy(out(to), in(block(from)), bytes(length(from)));
    if (elements == ElementsIn::slot) return take_from_slot(from, to, 0);
    // The counts can differ only where calls are not compared; the limits here and below keep the copy inside the output.
    const CountList given = counts_given_by(from);
    const std::size_t count = std::min(given[static_cast<std::size_t>(rank())], call().recv_counts[static_cast<std::size_t>(from)]);
    std::size_t begin = 0;
    for (int r = 0; r < rank(); ++r) begin += r == from && elements == ElementsIn::line ? 0 : given[static_cast<std::size_t>(r)];
    if (elements == ElementsIn::line) kernels::copy(out(to), line_data(from, first_line(from).count_bytes) + bytes(begin), bytes(count));
    else if (count != 0) result().copy(out(to), engine().direct().in(from, step_number(0)) + bytes(begin), bytes(count));
  }
  void take_from_slot(int from, std::size_t to, std::size_t k) {
    const Share& share = from_[static_cast<std::size_t>(from)];
    const Range piece = share[k];
    result().copy(out(to + piece.begin), slot_data(from, k) + share.begin, bytes(piece.size()));
  }
  void learn() {
    std::size_t steps = 1;
    for (int from = 0; from < size(); ++from) {
      const ElementsIn elements = first_line(from).elements;
      if (elements == ElementsIn::buffer) steps = std::max<std::size_t>(steps, 2);
      if (elements != ElementsIn::slot) continue;
      from_.resize(static_cast<std::size_t>(size()));
      const Shares theirs(counts_given_by(from), from, element(), room(engine(), call()), false);
      steps = std::max(steps, theirs.steps());
      Share& share = from_[static_cast<std::size_t>(from)];
      share = theirs[rank()];
      share.count = std::min(share.count, call().recv_counts[static_cast<std::size_t>(from)]);
    }
    set_steps(steps);
  }

  /// Every rank looks at every pair of the ranks that have come, so that all of them notice the same difference.
  bool disagrees(int other) const override {
    const auto me = static_cast<std::size_t>(rank()), o = static_cast<std::size_t>(other);
    bool differs = counts_given_by(other)[me] != call().recv_counts[o] || recv_counts_given_by(other)[me] != call().counts[o];
    for (int r = 0; !differs && r < other; ++r) {
      if (r != rank() && has_arrived(r)) differs = !fit(r, other);
    }
    return differs;
  }
  Decision decide_between(const std::vector<int>& ranks) const override {
    std::vector<Conflict> conflicts;
    for (const int a : ranks) {
      for (const int b : ranks) {
        std::string text = a < b ? between(a, b) : std::string();
        if (!text.empty()) conflicts.push_back({.a = segment().name_of(a), .b = segment().name_of(b), .text = std::move(text)});
      }
    }
    return decide(conflicts, static_cast<int>(ranks.size()));
  }
  std::size_t sent(int from, int to) const { return counts_given_by(from)[static_cast<std::size_t>(to)]; }
  std::size_t expected(int to, int from) const { return recv_counts_given_by(to)[static_cast<std::size_t>(from)]; }
  bool fit(int a, int b) const { return sent(a, b) == expected(b, a) && sent(b, a) == expected(a, b); }
  std::string between(int a, int b) const {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      if (sent(from, to) != expected(to, from)) {
        return "rank " + std::to_string(from) + " sends " + std::to_string(sent(from, to)) + " elements to rank " + std::to_string(to) +
               ", which expects " + std::to_string(expected(to, from));
      }
    }
    return {};
  }

  std::vector<Share> from_;  // of ranks whose elements travel in the slots
  bool stays_ = false;       // what this rank gives is read in its buffer
};

}  // namespace unisono::engines::shm
