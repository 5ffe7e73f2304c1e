#pragma once

#include "engines/shm/lockstep.h"
#include "engines/shm/pieces.h"

// The collectives that only move data. With S bytes a rank and P ranks, a rank copies through shared memory, in and out:
//   broadcast S (root) or S · all_gather S + (P-1) S · gather S, or (P-1) S at the root · scatter (P-1) S at the root, or S · all_to_all 2 (P-1) S

namespace unisono::engines::shm {

/// A collective that cuts the elements of a rank, or of each of its blocks, into pieces, the same on all ranks.
class MoveTask : public LockstepTask {
 protected:
  MoveTask(Lockstep& engine, const CollectiveCall& call, const Pieces& pieces, std::size_t copies)
      : LockstepTask(engine, call, pieces.count(), pieces.largest() * size_of(call.in.dtype()) * copies), pieces_(pieces) {}

  const Pieces& pieces() const { return pieces_; }
  std::size_t block(int rank) const { return static_cast<std::size_t>(rank) * call().count; }

  static Pieces whole_slots(const Lockstep& engine, const CollectiveCall& call) {
    return {call.count, engine.step_bytes() / size_of(call.in.dtype())};
  }
  /// Returns one step where the data of a rank fits its slot: cores that share a cache copy faster one after the other than both at once, while one
  /// slot is filled and the other one emptied. The ranks must cut a call alike, so this depends on nothing that a rank finds out by itself.
  static Pieces one_slot(const Lockstep& engine, const CollectiveCall& call, std::size_t parts = 1) {
    const std::size_t slot = engine.segment().slot_bytes() / parts / cache_line * cache_line;
    const std::size_t most = call.count * size_of(call.in.dtype()) <= slot ? slot : engine.step_bytes() / parts / cache_line * cache_line;
    return {call.count, most / size_of(call.in.dtype())};
  }

 private:
  Pieces pieces_;
};

class Barrier : public MoveTask {
 public:
  Barrier(Lockstep& engine, const CollectiveCall& call) : MoveTask(engine, call, Pieces(0, 1), 1) {}

 private:
  void produce(std::size_t) override {}
  void consume(std::size_t) override {}
};

/// A barrier at which every rank sets a flag or does not, and learns whether all have.
class Agreement final : public MoveTask {
 public:
  Agreement(Lockstep& engine, const CollectiveCall& call, bool flag) : MoveTask(engine, call, Pieces(0, 1), 1), flag_(flag) {}
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

class Broadcast : public MoveTask {
 public:
  Broadcast(Lockstep& engine, const CollectiveCall& call) : MoveTask(engine, call, one_slot(engine, call), 1) {}

 private:
  void produce(std::size_t k) override {
    const Range piece = pieces()[k];
    if (is_root()) Staging::copy(inbox(rank(), k), in(piece.begin), bytes(piece.size()));
  }
  void consume(std::size_t k) override {
    const Range piece = pieces()[k];
    if (!is_root()) result().copy(out(piece.begin), inbox(call().root, k), bytes(piece.size()));
  }
};

/// A task whose slots are divided into a part for each rank.
class SharedSlotTask : public MoveTask {
 public:
  SharedSlotTask(Lockstep& engine, const CollectiveCall& call)
      : MoveTask(engine, call, shared_slots(engine, call), static_cast<std::size_t>(engine.size())) {}

 protected:
  /// Puts the elements for the other ranks into their parts of this rank's slot.
  void produce(std::size_t k) override {
    const Range piece = pieces()[k];
    for (int to = 0; to < size(); ++to) {
      if (to != rank()) Staging::copy(part(rank(), to, k), in(block(to) + piece.begin), bytes(piece.size()));
    }
  }
  /// Returns the address of the elements that rank `from` has for this rank in step k.
  const void* given_by(int from, std::size_t k) const { return from == rank() ? in(block(from) + pieces()[k].begin) : part(from, rank(), k); }

 private:
  static Pieces shared_slots(const Lockstep& engine, const CollectiveCall& call) {
    return one_slot(engine, call, static_cast<std::size_t>(engine.size()));
  }
  /// Returns the memory in which a rank keeps, in step k, the data for `to`.
  std::byte* part(int from, int to, std::size_t k) const { return inbox(from, k) + bytes(static_cast<std::size_t>(to) * pieces().largest()); }
};

class Scatter : public SharedSlotTask {
 public:
  using SharedSlotTask::SharedSlotTask;

 private:
  void produce(std::size_t k) override {
    if (is_root()) SharedSlotTask::produce(k);
  }
  void consume(std::size_t k) override {
    const Range piece = pieces()[k];
    result().copy(out(piece.begin), given_by(call().root, k), bytes(piece.size()));
  }
};

class AllToAll : public SharedSlotTask {
 public:
  using SharedSlotTask::SharedSlotTask;

 private:
  void consume(std::size_t k) override {
    const Range piece = pieces()[k];
    for (int i = 1; i <= size(); ++i) {
      const int from = (rank() + i) % size();
      result().copy(out(block(from) + piece.begin), given_by(from, k), bytes(piece.size()));
    }
  }
};

}  // namespace unisono::engines::shm
