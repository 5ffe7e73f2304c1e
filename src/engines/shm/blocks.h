#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engines/shm/count_list.h"
#include "engines/shm/lockstep.h"
#include "engines/shm/pieces.h"
#include "engines/shm/reductions.h"

// The collectives on blocks of different length. There is no padding: each step takes as much as fits. The counts travel with the data of the first
// step, and are compared, number by number, before anything is consumed. They travel in the line where they fit, and so do a few elements behind
// them; else they are in front of the data in the slot.

namespace unisono::engines::shm {

/// The block of one rank in the slot of another: a step carries at most `most` elements of it, from byte `begin` of the slot's data on.
struct Share {
  std::size_t count = 0, most = 0, begin = 0;
  Range operator[](std::size_t k) const { return Pieces(count, most)[k]; }
};

/// Divides a slot among blocks. Every step takes the same part of each block, so that all their owners are busy in all steps, however uneven the
/// blocks are.
class Shares {
 public:
  /// `skipped`: a rank whose block does not travel, or -1. `room`: bytes for data in a slot. `in_line`: they travel in the line, all in one step and
  /// without gaps.
  Shares(const CountList& counts, int skipped, std::size_t element, std::size_t room, bool in_line)
      : counts_(counts), skipped_(skipped), element_(element), unit_(in_line ? element : cache_line) {
    if (in_line) return;
    std::size_t total = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) total += travelling(r);
    // The largest loss by rounding a share up to an element, and to a cache line.
    const std::size_t loss = counts.size() * (element + cache_line);
    steps_ = Pieces(total, (room - loss) / element).count();
  }

  std::size_t steps() const { return steps_; }
  /// Calls f with the share of each rank, in their order.
  template <class F>
  void each(F&& f) const {
    Share share;
    for (std::size_t r = 0; r < counts_.size(); ++r) {
      share.count = travelling(r);
      share.most = steps_ == 1 ? share.count : (share.count + steps_ - 1) / steps_;
      f(static_cast<int>(r), std::as_const(share));
      share.begin += (share.most * element_ + unit_ - 1) & ~(unit_ - 1);  // a power of two
    }
  }
  Share operator[](int rank) const {
    Share found;
    each([&](int r, const Share& share) {
      if (r == rank) found = share;
    });
    return found;
  }

 private:
  std::size_t travelling(std::size_t r) const { return static_cast<int>(r) == skipped_ ? 0 : counts_[r]; }

  CountList counts_;
  int skipped_;
  std::size_t element_;
  std::size_t unit_;
  std::size_t steps_ = 1;
};

class BlockTask : public LockstepTask {
 protected:
  BlockTask(Lockstep& engine, const CollectiveCall& call, std::size_t steps, const BlockForm& form)
      : LockstepTask(engine, call, steps, std::numeric_limits<std::size_t>::max(), true),  // the payload of the line is this class's own
        in_(static_cast<const std::byte*>(call.in.data())),
        out_(static_cast<std::byte*>(call.out.data())),
        room_(room(engine, call)),
        form_(form) {}

  /// Returns the bytes for data in a slot, behind the counts.
  static std::size_t room(const Lockstep& engine, const CollectiveCall& call) {
    const std::size_t bytes = (call.counts.size() + call.recv_counts.size()) * sizeof(std::size_t);
    return engine.step_bytes() - (bytes + cache_line - 1) / cache_line * cache_line;
  }
  const Counts& counts() const { return call().counts; }
  std::size_t count_of(int rank) const { return counts()[static_cast<std::size_t>(rank)]; }
  std::size_t before(int rank) const { return counts().before(static_cast<std::size_t>(rank)); }
  std::size_t bytes(std::size_t elements) const { return elements * element(); }
  const std::byte* in(std::size_t index) const { return in_ + bytes(index); }
  std::byte* out(std::size_t index) const { return out_ + bytes(index); }
  /// Returns the data that a rank gives in step k.
  std::byte* data(int rank, std::size_t k) const { return form_.has_elements ? line_data(rank, form_.count_bytes) : slot_data(rank, k); }
  std::byte* line_data(int rank, std::size_t count_bytes) const { return first_line(rank).payload + begin_in_line(call(), count_bytes, element()); }
  std::byte* slot_data(int rank, std::size_t k) const { return inbox(rank, k) + engine().step_bytes() - room_; }
  const BlockForm& form() const { return form_; }
  Line& first_line(int rank) const { return segment().line(rank, step_number(0)); }

  void produce(std::size_t k) override {
    if (k == 0) {
      Line& line = first_line(rank());
      line.count_bytes = static_cast<std::uint8_t>(form_.count_bytes);
      line.has_elements = form_.has_elements;
      const std::size_t each = form_.count_bytes > 0 ? form_.count_bytes : sizeof(std::size_t);
      std::byte* const to = form_.count_bytes > 0 ? line.payload : inbox(rank(), 0);
      write_counts(to, counts().span(), each);
      write_counts(to + counts().size() * each, call().recv_counts.span(), each);
    }
    put(k);
  }
  virtual void put(std::size_t k) = 0;

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
  static std::string list(const CountList& counts, std::size_t most) {
    std::string text = "[";
    for (std::size_t i = 0; i < std::min(counts.size(), most); ++i) {
      if (i > 0) text += ", ";
      text += std::to_string(counts[i]);
    }
    text += counts.size() > most ? ", …]" : "]";
    return text;
  }

 private:
  CountList list_in(int rank, std::size_t first) const {
    const Line& line = first_line(rank);
    const std::size_t each = line.count_bytes > 0 ? line.count_bytes : sizeof(std::size_t);
    return {(line.count_bytes > 0 ? line.payload : inbox(rank, 0)) + first * each, each, counts().size()};
  }

  const std::byte* in_;
  std::byte* out_;
  std::size_t room_;
  BlockForm form_;
};

class AllGatherV : public BlockTask {
 public:
  AllGatherV(Lockstep& engine, const CollectiveCall& call)
      : AllGatherV(engine, call, room(engine, call) / size_of(call.in.dtype()), *std::max_element(call.counts.begin(), call.counts.end())) {}

 protected:
  void put(std::size_t k) override {
    const Range piece = piece_of(rank(), k);
    copy_bytes(data(rank(), k), in(piece.begin), bytes(piece.size()));
  }
  void consume(std::size_t k) override {
    for (int i = 1; i <= size(); ++i) {
      const int from = (rank() + i) % size();  // each starts with another rank
      const Range piece = piece_of(from, k);
      const void* source = from == rank() ? static_cast<const void*>(in(piece.begin)) : data(from, k);
      result().copy(out(before(from) + piece.begin), source, bytes(piece.size()));
    }
  }

 private:
  AllGatherV(Lockstep& engine, const CollectiveCall& call, std::size_t most, std::size_t longest)
      : BlockTask(engine, call, Pieces(longest, most).count(), form_of(call, longest)), most_(most) {}
  Range piece_of(int r, std::size_t k) const { return Pieces(count_of(r), most_)[k]; }

  std::size_t most_;
};

class GatherV final : public AllGatherV {
 public:
  using AllGatherV::AllGatherV;

 private:
  void put(std::size_t k) override {
    if (rank() != call().root) AllGatherV::put(k);
  }
  void consume(std::size_t k) override {
    if (rank() == call().root) AllGatherV::consume(k);
  }
};

/// A task whose slots hold a share of the block of every rank.
class SharedBlockTask : public BlockTask {
 protected:
  SharedBlockTask(Lockstep& engine, const CollectiveCall& call, int skipped)
      : SharedBlockTask(engine, call, skipped,
                        form_of(call, call.counts.total() - (skipped < 0 ? 0 : call.counts[static_cast<std::size_t>(skipped)]))) {}

  /// Puts the shares of all others into this rank's slot.
  void put_shares(std::size_t k) {
    std::size_t block = 0;
    shares_.each([&](int to, const Share& share) {
      const Range piece = share[k];
      if (to != rank()) copy_bytes(data(rank(), k) + share.begin, in(block + piece.begin), bytes(piece.size()));
      block += count_of(to);
    });
  }
  /// Returns this rank's share in the slots of the others.
  const Share& mine() const { return mine_; }

 private:
  SharedBlockTask(Lockstep& engine, const CollectiveCall& call, int skipped, const BlockForm& form)
      : SharedBlockTask(engine, call, skipped, form,
                        Shares(call.counts.span(), skipped, size_of(call.in.dtype()), room(engine, call), form.has_elements)) {}
  SharedBlockTask(Lockstep& engine, const CollectiveCall& call, int skipped, const BlockForm& form, const Shares& shares)
      : BlockTask(engine, call, shares.steps(), form), shares_(shares), mine_(skipped == engine.rank() ? Share{} : shares[engine.rank()]) {}

  Shares shares_;
  Share mine_;
};

class ScatterV final : public SharedBlockTask {
 public:
  ScatterV(Lockstep& engine, const CollectiveCall& call) : SharedBlockTask(engine, call, call.root) {}

 private:
  void put(std::size_t k) override {
    if (rank() == call().root) put_shares(k);
  }
  void consume(std::size_t k) override {
    if (rank() == call().root) {
      if (k == 0) result().copy(out(0), in(before(rank())), bytes(count_of(rank())));
      return;
    }
    const Range piece = mine()[k];
    result().copy(out(piece.begin), data(call().root, k) + mine().begin, bytes(piece.size()));
  }
};

class ReduceScatterV final : public SharedBlockTask {
 public:
  ReduceScatterV(Lockstep& engine, const CollectiveCall& call) : SharedBlockTask(engine, call, -1) {}

 private:
  void put(std::size_t k) override { put_shares(k); }
  void consume(std::size_t k) override {
    const Range piece = mine()[k];
    InputList inputs(size());
    for (int r = 0; r < size(); ++r) {
      inputs[r] = r == rank() ? static_cast<const void*>(in(before(rank()) + piece.begin)) : data(r, k) + mine().begin;
    }
    result().combine(out(piece.begin), inputs.data(), size(), piece.size(), call(), size());
  }
};

/// Each rank knows only the counts that it sends and expects itself. It computes from the counts of the others, in the first step, how many steps
/// they need and where its share lies in their slots.
class AllToAllV final : public SharedBlockTask {
 public:
  AllToAllV(Lockstep& engine, const CollectiveCall& call) : SharedBlockTask(engine, call, engine.rank()) {}

 private:
  void put(std::size_t k) override { put_shares(k); }

  void consume(std::size_t k) override {
    if (k == 0) learn();
    std::size_t block = 0;
    for (int from = 0; from < size(); ++from) {
      const std::size_t expected = call().recv_counts[static_cast<std::size_t>(from)];
      if (from == rank()) {
        if (k == 0) result().copy(out(block), in(before(rank())), bytes(expected));
      } else if (k == 0 && first_line(from).has_elements) {
        take_from_line(from, block, expected);
      } else if (!from_.empty()) {
        const Share& share = from_[static_cast<std::size_t>(from)];
        const Range piece = share[k];
        result().copy(out(block + piece.begin), slot_data(from, k) + share.begin, bytes(piece.size()));
      }
      block += expected;
    }
  }
  // The counts can differ only where calls are not compared; the limits here and below keep the copy inside the output.
  void take_from_line(int from, std::size_t to, std::size_t expected) {
    const CountList given = counts_given_by(from);
    std::size_t begin = 0;
    for (int r = 0; r < rank(); ++r) begin += r == from ? 0 : given[static_cast<std::size_t>(r)];
    const std::size_t count = std::min(given[static_cast<std::size_t>(rank())], expected);
    copy_bytes(out(to), line_data(from, first_line(from).count_bytes) + bytes(begin), bytes(count));
  }
  void learn() {
    std::size_t steps = 1;
    for (int from = 0; from < size(); ++from) {
      if (from == rank() ? form().has_elements : first_line(from).has_elements) continue;
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

  std::vector<Share> from_;  // of ranks whose elements do not travel in the line
};

}  // namespace unisono::engines::shm
