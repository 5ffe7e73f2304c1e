#pragma once

#include <optional>

#include "engines/shm/lockstep.h"
#include "engines/shm/pieces.h"

// The collectives without counts. Those that combine keep the order rank 0, 1, …, P-1 within an element, whichever
// rank computes it, so that every rank gets the same bits. With S bytes a rank and P ranks, a rank reads and writes, in and out of cache:
//   broadcast  the root stages S; the others read S, write S
//   blocks     of S bytes: all_gather stages S, reads and writes P S; gather stages S, or writes P S at the root; scatter stages (P-1) S at the
//              root, and writes S; all_to_all stages (P-1) S, and writes P S; reduce_scatter stages (P-1) S, reads P S, writes S
//   one shot   stage S, read P S, write S                 one exchange a piece: best for two ranks, and for small messages
//   sliced     stage S, read S, write S/P + S, read S     each reduces the slice of a piece it owns; two exchanges, overlapped from piece to piece

namespace unisono::engines::shm {

/// Returns true where one rank alone fills slots, or reads them.
inline bool goes_one_way(const CollectiveCall& call) {
  const OperationTraits& traits = traits_of(call.operation);
  return traits.senders == Participants::root || traits.receivers == Participants::root;
}

/// Returns how many bytes of a slot the steps of such a call fill: few, so that a slot is filled while the one before it is read. `block`: bytes for
/// each rank. `parts`: of a slot, each for a piece of a block.
inline std::size_t overlapping_step(const Lockstep& engine, std::size_t block, std::size_t parts) {
  constexpr std::size_t shortest = std::size_t{32} << 10, longest = std::size_t{256} << 10;
  return engine.coalesces() ? engine.step_bytes() : std::min(engine.step_bytes(), std::clamp(block / 16, shortest, longest) * parts);
}
/// Returns the one piece of a call that gives each rank at most a cache line: every part of a slot has room for it, and a division is spared.
inline std::optional<Pieces> one_line(const CollectiveCall& call) {
  if (call.count * size_of(call.in.dtype()) > cache_line) return std::nullopt;
  return Pieces(call.count, call.count);
}
inline Pieces overlapping(const Lockstep& engine, const CollectiveCall& call, std::size_t parts = 1) {
  if (const auto line = one_line(call)) return *line;
  const std::size_t element = size_of(call.in.dtype()), step = overlapping_step(engine, call.count * element, parts);
  return Pieces::of_bytes(call.count, step / parts / cache_line * cache_line, element);
}

/// Returns one step where the data of a rank fits its slot: cores that share a cache copy faster one after the other than both at once, while one
/// slot is filled and the other one emptied. The ranks must cut a call alike, so this depends on nothing that a rank finds out by itself. `parts`: of
/// a slot.
inline Pieces one_slot(const Lockstep& engine, const CollectiveCall& call, std::size_t parts = 1) {
  if (goes_one_way(call)) return overlapping(engine, call, parts);
  if (const auto line = one_line(call)) return *line;
  const std::size_t element = size_of(call.in.dtype()), slot = engine.segment().slot_bytes() / parts / cache_line * cache_line;
  const std::size_t most = call.count * element <= slot ? slot : engine.step_bytes() / parts / cache_line * cache_line;
  return Pieces::of_bytes(call.count, most, element);
}

/// A collective that cuts the elements of a rank into pieces, the same on all ranks.
class WholeTask : public LockstepTask {
 protected:
  /// `parts`: of a slot, each for a piece.
  WholeTask(Lockstep& engine, const CollectiveCall& call, const Pieces& pieces, std::size_t parts = 1)
      : LockstepTask(engine, call, pieces.count(), parts * pieces.largest() * size_of(call.in.dtype())), pieces_(pieces) {}

  const Pieces& pieces() const { return pieces_; }
  std::size_t block(int rank) const { return static_cast<std::size_t>(rank) * call().count; }
  static Pieces whole_slots(const Lockstep& engine, const CollectiveCall& call) {
    if (goes_one_way(call)) return overlapping(engine, call);
    return Pieces::of_bytes(call.count, engine.step_bytes(), size_of(call.in.dtype()));
  }

 private:
  Pieces pieces_;
};

class Barrier : public WholeTask {
 public:
  Barrier(Lockstep& engine, const CollectiveCall& call) : WholeTask(engine, call, Pieces(0, 1)) {}

 private:
  void produce(std::size_t) override {}
  void consume(std::size_t) override {}
};

/// A barrier at which every rank sets a flag or does not, and learns whether all have.
class Agreement final : public WholeTask {
 public:
  Agreement(Lockstep& engine, const CollectiveCall& call, bool flag) : WholeTask(engine, call, Pieces(0, 1)), flag_(flag) {}
  bool all() const { return all_; }

 private:
  void produce(std::size_t k) override { *inbox(rank(), k) = static_cast<std::byte>(flag_ ? 1 : 0); }
  void consume(std::size_t k) override {
    all_ = flag_;
    for (int r = 0; all_ && r < size(); ++r) all_ = r == rank() || *inbox(r, k) != std::byte{0};
  }

  bool flag_;
  bool all_ = false;
};

class Broadcast : public WholeTask {
 public:
  Broadcast(Lockstep& engine, const CollectiveCall& call) : WholeTask(engine, call, overlapping(engine, call)) {}

 private:
  void produce(std::size_t k) override {
    const Range piece = pieces()[k];
    if (is_root()) stage(inbox(rank(), k), in(piece.begin), bytes(piece.size()));
  }
  void consume(std::size_t k) override {
    const Range piece = pieces()[k];
    if (!is_root()) result().copy(out(piece.begin), inbox(call().root, k), bytes(piece.size()));
  }
};

/// all_gather and gather.
class AllGather : public WholeTask {
 public:
  AllGather(Lockstep& engine, const CollectiveCall& call) : WholeTask(engine, call, whole_slots(engine, call)) {}

 private:
  void produce(std::size_t k) override {
    const Range piece = pieces()[k];
    if (!is_root()) stage(inbox(rank(), k), in(piece.begin), bytes(piece.size()));
  }
  void consume(std::size_t k) override {
    if (!is_receiver()) return;
    const Range piece = pieces()[k];
    for (int i = 1; i <= size(); ++i) {
      const int from = engine().rank_after(i);  // each starts with another rank
      const void* source = from == rank() ? static_cast<const void*>(in(piece.begin)) : inbox(from, k);
      result().copy(out(block(from) + piece.begin), source, bytes(piece.size()));
    }
  }
};

/// A task whose slots are divided into a part for each rank.
class SharedSlotTask : public WholeTask {
 public:
  SharedSlotTask(Lockstep& engine, const CollectiveCall& call)
      : WholeTask(engine, call, one_slot(engine, call, static_cast<std::size_t>(engine.size())), static_cast<std::size_t>(engine.size())) {}

 protected:
  /// Puts the elements for the other ranks into their parts of this rank's slot.
  void produce(std::size_t k) override {
    const Range piece = pieces()[k];
    for (int to = 0; to < size(); ++to)
      if (to != rank()) stage(part(rank(), to, k), in(block(to) + piece.begin), bytes(piece.size()));
  }
  /// Returns the address of the elements that rank `from` has for this rank in step k.
  const void* given_by(int from, std::size_t k) const { return from == rank() ? in(block(from) + pieces()[k].begin) : part(from, rank(), k); }

 private:
  /// Returns the memory in which a rank keeps, in step k, the data for `to`.
  std::byte* part(int from, int to, std::size_t k) const {
    const int place = to > from ? to - from - 1 : to - from - 1 + size();  // of two ranks the same for both, so that they exchange it
    return inbox(from, k) + bytes(static_cast<std::size_t>(place) * pieces().largest());
  }
};

class Scatter : public SharedSlotTask {
 public:
  using SharedSlotTask::SharedSlotTask;

 private:
  void produce(std::size_t k) override {
    if (is_root()) SharedSlotTask::produce(k);
  }
  void consume(std::size_t k) override { result().copy(out(pieces()[k].begin), given_by(call().root, k), bytes(pieces()[k].size())); }
};

class AllToAll : public SharedSlotTask {
 public:
  using SharedSlotTask::SharedSlotTask;

 private:
  void consume(std::size_t k) override {
    const Range piece = pieces()[k];
    for (int i = 1; i <= size(); ++i) {
      const int from = engine().rank_after(i);
      result().copy(out(block(from) + piece.begin), given_by(from, k), bytes(piece.size()));
    }
  }
};

class ReduceScatter : public SharedSlotTask {
 public:
  using SharedSlotTask::SharedSlotTask;

 private:
  void consume(std::size_t k) override {
    const Range piece = pieces()[k];
    InputList inputs(size());
    for (int r = 0; r < size(); ++r) inputs[r] = given_by(r, k);
    result().combine(out(piece.begin), inputs.data(), size(), piece.size(), call(), size());
  }
};

/// Below this the second exchange costs more than the additional reading.
inline constexpr std::size_t one_shot_bytes = std::size_t{8} << 10;
/// Two ranks share the work of more than a slot where an element takes longer to combine than to copy: 16-bit numbers are widened and rounded. For
/// less, the second exchange and the copy of what the other one has combined cost more than that.
inline constexpr std::size_t sliced_halves_bytes = std::size_t{1} << 20;
inline bool prefers_one_shot(int ranks, const CollectiveCall& call) {
  const DType dtype = call.in.dtype();
  const std::size_t bytes = call.count * size_of(dtype);
  if (bytes <= one_shot_bytes) return true;
  const bool is_half = dtype == DType::float16 || dtype == DType::bfloat16;
  return ranks <= 2 && !(is_half && bytes > sliced_halves_bytes && call.operation == Operation::all_reduce);
}

class OneShotAllReduce : public WholeTask {
 public:
  OneShotAllReduce(Lockstep& engine, const CollectiveCall& call) : OneShotAllReduce(engine, call, one_slot(engine, call)) {}

 protected:
  OneShotAllReduce(Lockstep& engine, const CollectiveCall& call, const Pieces& pieces) : WholeTask(engine, call, pieces) {}

  void produce(std::size_t k) override {
    const Range piece = pieces()[k];
    stage(inbox(rank(), k), in(piece.begin), bytes(piece.size()));
  }
  void consume(std::size_t k) override { combine_first(k, size()); }
  /// Combines piece k of the first `fan_in` ranks.
  void combine_first(std::size_t k, int fan_in) {
    const Range piece = pieces()[k];
    InputList inputs(fan_in);
    for (int r = 0; r < fan_in; ++r) inputs[r] = r == rank() ? static_cast<const void*>(in(piece.begin)) : inbox(r, k);
    result().combine(out(piece.begin), inputs.data(), fan_in, piece.size(), call(), size());
  }
};

/// reduce to a root, and prefixes: rank r combines ranks 0 … r of a scan, and 0 … r-1 of an exscan (the output of rank 0 stays as it is).
class OneShot : public OneShotAllReduce {
 public:
  OneShot(Lockstep& engine, const CollectiveCall& call) : OneShotAllReduce(engine, call, whole_slots(engine, call)) {}

 private:
  void produce(std::size_t k) override {
    if (!is_root() || is_prefix(call().operation)) OneShotAllReduce::produce(k);
  }
  void consume(std::size_t k) override {
    const int fan_in = !is_prefix(call().operation) ? size() : rank() + (call().operation == Operation::scan ? 1 : 0);
    if (fan_in > 0 && is_receiver()) combine_first(k, fan_in);
  }
};

/// all_reduce, or reduce to a root: in step k every rank stages piece k, and combines its slice of piece k-1 for the others to fetch.
class SlicedReduce : public WholeTask {
 public:
  SlicedReduce(Lockstep& engine, const CollectiveCall& call) : SlicedReduce(engine, call, whole_slots(engine, call)) {}

 private:
  SlicedReduce(Lockstep& engine, const CollectiveCall& call, const Pieces& pieces) : WholeTask(engine, call, with_last(pieces)), pieces_(pieces) {}

  // Returns one step more than there are pieces; its data never travels inside a line.
  static Pieces with_last(const Pieces& pieces) { return {pieces.count() + 1, 1}; }
  Range slice(std::size_t piece, int r) const { return owned_part(pieces_[piece].size(), element(), r, size()); }

  void produce(std::size_t k) override {
    if (k > 0) {
      const Range mine = slice(k - 1, rank());
      const std::size_t begin = pieces_[k - 1].begin + mine.begin;
      InputList inputs(size());
      for (int r = 0; r < size(); ++r) {
        inputs[r] = r == rank() ? static_cast<const void*>(in(begin)) : inbox(r, k - 1) + bytes(mine.begin);
      }
      std::byte* shared = segment().result(rank(), step_number(k)) + bytes(mine.begin);
      if (!engine().coalesces() && Staging::is_past_caches(bytes(mine.size())) && !call().custom)
        ResultWriter::combine_streaming(shared, inputs.data(), size(), mine.size(), call(), size());
      else combine(shared, inputs.data(), size(), mine.size(), call(), size());
    }
    if (k < pieces_.count()) {
      // This rank's own slice is left out, since no other rank reads it.
      const Range piece = pieces_[k];
      const Range mine = slice(k, rank());
      std::byte* staged = inbox(rank(), k);
      stage(staged, in(piece.begin), bytes(mine.begin));
      stage(staged + bytes(mine.end), in(piece.begin + mine.end), bytes(piece.size() - mine.end));
    }
  }
  void consume(std::size_t k) override {
    if (k == 0 || !is_receiver()) return;
    const std::size_t begin = pieces_[k - 1].begin;
    for (int i = 0; i < size(); ++i) {
      const int owner = engine().rank_after(i);
      const Range part = slice(k - 1, owner);
      result().copy(out(begin + part.begin), segment().result(owner, step_number(k)) + bytes(part.begin), bytes(part.size()));
    }
  }

  Pieces pieces_;
};

}  // namespace unisono::engines::shm
