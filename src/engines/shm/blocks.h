#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engines/shm/lockstep.h"
#include "engines/shm/pieces.h"
#include "engines/shm/reductions.h"

// The collectives on blocks of different length. There is no padding: each step takes as much as fits. The counts travel in front of the data of the
// first step, and are compared, number by number, before anything is consumed.

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
  /// `skipped`: a rank whose block does not travel, or -1. `room`: bytes for data in a slot.
  Shares(std::span<const std::size_t> counts, int skipped, std::size_t element, std::size_t room)
      : counts_(counts), skipped_(skipped), element_(element) {
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
      share.most = (share.count + steps_ - 1) / steps_;
      f(static_cast<int>(r), std::as_const(share));
      share.begin += (share.most * element_ + cache_line - 1) / cache_line * cache_line;
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

  std::span<const std::size_t> counts_;
  int skipped_;
  std::size_t element_;
  std::size_t steps_ = 1;
};

class BlockTask : public LockstepTask {
 protected:
  BlockTask(Lockstep& engine, const CollectiveCall& call, std::size_t steps)
      : LockstepTask(engine, call, steps, std::numeric_limits<std::size_t>::max(), true),  // in the slots, however small, since the counts are there
        in_(static_cast<const std::byte*>(call.in.data())),
        out_(static_cast<std::byte*>(call.out.data())),
        room_(room(engine, call)) {}

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
  /// Returns the data that a rank has put into its slot in step k.
  std::byte* data(int rank, std::size_t k) const { return inbox(rank, k) + engine().step_bytes() - room_; }

  void produce(std::size_t k) override {
    if (k == 0) {
      std::byte* to = inbox(rank(), 0);
      std::memcpy(to, counts().begin(), counts().size() * sizeof(std::size_t));
      if (call().recv_counts.size() > 0) {
        std::memcpy(to + counts().size() * sizeof(std::size_t), call().recv_counts.begin(), call().recv_counts.size() * sizeof(std::size_t));
      }
    }
    put(k);
  }
  virtual void put(std::size_t k) = 0;

  /// Returns the counts of a rank that has arrived at the first step.
  std::span<const std::size_t> counts_given_by(int rank) const { return {reinterpret_cast<const std::size_t*>(inbox(rank, 0)), counts().size()}; }

  bool disagrees(int other) const override { return !std::ranges::equal(counts().span(), counts_given_by(other)); }
  Decision decide_between(const std::vector<int>& ranks) const override {
    std::vector<Ballot> ballots;
    for (const int r : ranks) {
      const auto given = counts_given_by(r);
      ballots.push_back({.rank = segment().name_of(r),
                         .key = std::string(reinterpret_cast<const char*>(given.data()), given.size_bytes()),
                         .call = "gives the counts " + list(given)});
    }
    return decide(ballots);
  }
  static std::string list(std::span<const std::size_t> counts) {
    constexpr std::size_t most = 32;  // counts that a message shows
    std::string text = "[";
    for (std::size_t i = 0; i < std::min(counts.size(), most); ++i) {
      if (i > 0) text += ", ";
      text += std::to_string(counts[i]);
    }
    text += counts.size() > most ? ", …]" : "]";
    return text;
  }

 private:
  const std::byte* in_;
  std::byte* out_;
  std::size_t room_;
};

class AllGatherV : public BlockTask {
 public:
  AllGatherV(Lockstep& engine, const CollectiveCall& call) : AllGatherV(engine, call, room(engine, call) / size_of(call.in.dtype())) {}

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
  AllGatherV(Lockstep& engine, const CollectiveCall& call, std::size_t most)
      : BlockTask(engine, call, Pieces(*std::max_element(call.counts.begin(), call.counts.end()), most).count()), most_(most) {}
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
      : SharedBlockTask(engine, call, Shares(call.counts.span(), skipped, size_of(call.in.dtype()), room(engine, call))) {}

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
  SharedBlockTask(Lockstep& engine, const CollectiveCall& call, const Shares& shares)
      : BlockTask(engine, call, shares.steps()), shares_(shares), mine_(shares[engine.rank()]) {}

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
      if (from != rank()) {
        const Share& share = from_[static_cast<std::size_t>(from)];
        const Range piece = share[k];
        result().copy(out(block + piece.begin), data(from, k) + share.begin, bytes(piece.size()));
      } else if (k == 0) {
        result().copy(out(block), in(before(rank())), bytes(expected));
      }
      block += expected;
    }
  }
  void learn() {
    std::size_t steps = 1;
    from_.reserve(static_cast<std::size_t>(size()));
    for (int from = 0; from < size(); ++from) {
      const Shares theirs(counts_given_by(from), from, element(), room(engine(), call()));
      steps = std::max(steps, theirs.steps());
      from_.push_back(theirs[rank()]);
      // The counts can differ only where calls are not compared; the limit keeps the copy inside the output.
      from_.back().count = std::min(from_.back().count, call().recv_counts[static_cast<std::size_t>(from)]);
    }
    set_steps(steps);
  }

  /// Every rank looks at every pair of the ranks that have come, so that all of them notice the same difference.
  bool disagrees(int other) const override {
    bool differs = !between(other, rank()).empty();
    for (int r = 0; !differs && r < other; ++r) {
      if (r != rank() && has_arrived(r)) differs = !between(r, other).empty();
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
  std::string between(int a, int b) const {
    const std::size_t n = counts().size();
    const auto sends = [&](int from, int to) { return counts_given_by(from)[static_cast<std::size_t>(to)]; };
    const auto expects = [&](int to, int from) { return counts_given_by(to).data()[n + static_cast<std::size_t>(from)]; };
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      if (sends(from, to) != expects(to, from)) {
        return "rank " + std::to_string(from) + " sends " + std::to_string(sends(from, to)) + " elements to rank " + std::to_string(to) +
               ", which expects " + std::to_string(expects(to, from));
      }
    }
    return {};
  }

  std::vector<Share> from_;
};

}  // namespace unisono::engines::shm
