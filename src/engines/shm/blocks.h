#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engines/shm/counted_task.h"
#include "engines/shm/pieces.h"
#include "engines/shm/whole.h"

// The collectives on blocks of different length. The blocks are not padded: each step takes as much as fits. Their counts travel with the data of the
// first step, and are compared, number by number, before anything is consumed. They travel in the line where they fit, and so do a few elements
// behind them; else they are in front of the data in the slot.

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
      : counts_(counts), skipped_(skipped), element_(element), unit_(in_line ? element : cache_line), is_alone_(!in_line && counts.size() == 2) {
    if (in_line) return;
    std::size_t total = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) total += travelling(r);
    // The largest loss by rounding a share up to an element, and to a cache line.
    const std::size_t loss = counts.size() * (element + cache_line);
    steps_ = Pieces(total, (room - loss) / element).count();
  }

  std::size_t steps() const { return steps_; }
  /// Returns a block of that length, without a place in the slot.
  Share share_of(std::size_t count) const { return {.count = count, .most = steps_ == 1 ? count : (count + steps_ - 1) / steps_}; }
  /// Calls f with the share of each rank, in their order.
  template <class F>
  void each(F&& f) const {
    std::size_t begin = 0;
    for (std::size_t r = 0; r < counts_.size(); ++r) {
      Share share = share_of(travelling(r));
      share.begin = begin;
      f(static_cast<int>(r), std::as_const(share));
      if (is_alone_) continue;
      begin += (share.most * element_ + unit_ - 1) & ~(unit_ - 1);  // a power of two
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
  bool is_alone_;  // a slot of two ranks has the share of the other one alone, at the same place in both
  std::size_t steps_ = 1;
};

class BlockTask : public CountedTask {
 protected:
  BlockTask(Lockstep& engine, const CollectiveCall& call, std::size_t steps, const BlockForm& form)
      : CountedTask(engine, call, steps, step_of(engine, call), form) {}  // what the line holds is the counts' and this class's

  /// Returns the form of a call in which a rank gives the others that many elements. An announcement takes the line.
  static BlockForm form_of(Lockstep& engine, const CollectiveCall& call, std::size_t travelling) {
    return engine.direct().suits(call) ? BlockForm() : shm::form_of(call, travelling);
  }

  /// Returns the bytes for data in a slot, behind the counts.
  static std::size_t room(const Lockstep& engine, const CollectiveCall& call) { return step_of(engine, call) - counts_bytes(call); }
  /// Returns the data that a rank gives in step k.
  std::byte* data(int rank, std::size_t k) const {
    return form().elements == ElementsIn::line ? line_data(rank, form().count_bytes) : slot_data(rank, k);
  }
  std::byte* line_data(int rank, std::size_t count_bytes) const { return first_line(rank).payload + begin_in_line(call(), count_bytes, element()); }
  std::byte* slot_data(int rank, std::size_t k) const { return inbox(rank, k) + counts_bytes(call()); }

 private:
  /// Returns how many bytes of a slot a step fills, the same on all ranks.
  static std::size_t step_of(const Lockstep& engine, const CollectiveCall& call) {
    if (!goes_one_way(call)) return engine.step_bytes();
    const std::size_t ranks = call.counts.size(), block = call.counts.total() * size_of(call.in.dtype()) / ranks;
    const bool is_shared = traits_of(call.operation).senders == Participants::root;
    return std::min(engine.step_bytes(), overlapping_step(engine, block, is_shared ? std::max<std::size_t>(ranks - 1, 1) : 1) + counts_bytes(call));
  }
  static std::size_t counts_bytes(const CollectiveCall& call) {
    const std::size_t bytes = (call.counts.size() + call.recv_counts.size()) * sizeof(std::size_t);
    return (bytes + cache_line - 1) / cache_line * cache_line;
  }
};

/// all_gather_v and gather_v.
class AllGatherV : public BlockTask {
 public:
  AllGatherV(Lockstep& engine, const CollectiveCall& call)
      : AllGatherV(engine, call, *std::max_element(call.counts.begin(), call.counts.end()), room(engine, call) / size_of(call.in.dtype())) {}

 private:
  AllGatherV(Lockstep& engine, const CollectiveCall& call, std::size_t longest, std::size_t most)
      : BlockTask(engine, call, Pieces(longest, most).count(), form_of(engine, call, longest)), most_(most) {}
  Range piece_of(int r, std::size_t k) const { return Pieces(length(r), most_)[k]; }

  void produce(std::size_t k) override {
    if (k == 0) give_counts(form().elements);
    if (is_root() && goes_one_way(call())) return;
    const Range piece = piece_of(rank(), k);
    stage(data(rank(), k), in(piece.begin), bytes(piece.size()));
  }
  void consume(std::size_t k) override {
    if (!is_receiver()) return;
    for (int i = 1; i <= size(); ++i) {
      const int from = engine().rank_after(i);  // each starts with another rank
      const Range piece = piece_of(from, k);
      const void* source = from == rank() ? static_cast<const void*>(in(piece.begin)) : data(from, k);
      result().copy(out(block(from) + piece.begin), source, bytes(piece.size()));
    }
  }

  std::size_t most_;
};

/// A task whose slots hold a share of the block of every rank.
class SharedBlockTask : public BlockTask {
 protected:
  /// `skipped`: a rank whose block does not travel, or -1.
  SharedBlockTask(Lockstep& engine, const CollectiveCall& call, int skipped)
      : SharedBlockTask(engine, call, skipped, form_of(engine, call, travelling(call, skipped))) {}

  void produce(std::size_t k) override {
    if (k == 0) give_counts(form().elements);
    put_shares(k);
  }
  /// Puts the shares of all others into this rank's slot.
  void put_shares(std::size_t k) {
    std::size_t begin = 0;
    shares_.each([&](int to, const Share& share) {
      const Range piece = share[k];
      if (to != rank()) stage(data(rank(), k) + share.begin, in(begin + piece.begin), bytes(piece.size()));
      begin += length(to);
    });
  }
  /// Returns the piece of this rank's block that step k carries, and its address in what rank `from` gives.
  Range piece(std::size_t k) const { return mine_[k]; }
  const void* given_by(int from, std::size_t k) const { return from == rank() ? in(block(from) + piece(k).begin) : data(from, k) + mine_.begin; }

 private:
  SharedBlockTask(Lockstep& engine, const CollectiveCall& call, int skipped, const BlockForm& form)
      : SharedBlockTask(engine, call, skipped, form,
                        Shares(call.counts.span(), skipped, size_of(call.in.dtype()), room(engine, call), form.elements == ElementsIn::line)) {}
  SharedBlockTask(Lockstep& engine, const CollectiveCall& call, int skipped, const BlockForm& form, const Shares& shares)
      : BlockTask(engine, call, shares.steps(), form),
        shares_(shares),
        mine_(skipped == engine.rank() ? shares.share_of(length(skipped)) : shares[engine.rank()]) {}

  static std::size_t travelling(const CollectiveCall& call, int skipped) {
    return call.counts.total() - (skipped < 0 ? 0 : call.counts[static_cast<std::size_t>(skipped)]);
  }

  Shares shares_;
  Share mine_;
};

class ScatterV : public SharedBlockTask {
 public:
  ScatterV(Lockstep& engine, const CollectiveCall& call) : SharedBlockTask(engine, call, call.root) {}

 private:
  void produce(std::size_t k) override {
    if (is_root()) SharedBlockTask::produce(k);
    else if (k == 0) give_counts(form().elements);
  }
  void consume(std::size_t k) override { result().copy(out(piece(k).begin), given_by(call().root, k), bytes(piece(k).size())); }
};

class ReduceScatterV : public SharedBlockTask {
 public:
  ReduceScatterV(Lockstep& engine, const CollectiveCall& call) : SharedBlockTask(engine, call, -1) {}

 private:
  void consume(std::size_t k) override {
    const Range part = piece(k);
    InputList inputs(size());
    for (int r = 0; r < size(); ++r) inputs[r] = given_by(r, k);
    result().combine(out(part.begin), inputs.data(), size(), part.size(), call(), size());
  }
};

}  // namespace unisono::engines::shm
