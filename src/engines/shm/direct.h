#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/processors.h"
#include "engines/shm/counted_task.h"
#include "engines/shm/peer_reader.h"
#include "engines/shm/pieces.h"
#include "engines/shm/reductions.h"

// The collectives on buffers that the ranks read where they lie, without staging. Ranks only read each other's memory, so a rank that has given up a
// call is never written to. With S bytes a rank and P ranks, a rank reads and writes:
//   all_reduce       read S, write S/P; read (P-1) S/P, write as much     every rank combines the slice it owns, then fetches the others'
//   reduce, gather   read P S, write S or P S at the root · broadcast, scatter   read S, write S · reduce_scatter   read P S, write S
//   all_gather, all_to_all   read and write P S
// Blocks of different length are read in the same way: their counts are compared in the step of the announcement. all_to_all_v alone is in
// all_to_all_v.h, since no rank knows before that step what the others send.

namespace unisono::engines::shm {

/// Step 0 announces and compares. If all agree, the work begins there, and another step confirms that all ranks have read what they need.
class DirectTask : public CountedTask {
 public:
  /// Returns true where the ranks' buffers do not all lie in reach: nothing was moved, and the call is still to be carried out.
  bool refused() const { return refused_; }

 protected:
  DirectTask(Lockstep& engine, const CollectiveCall& call, std::size_t steps) : CountedTask(engine, call, steps, not_inline), reader_(engine) {}
  // More than a line holds.
  static constexpr std::size_t not_inline = std::size_t{1} << 20;

  virtual void work(std::size_t k) = 0;
  const std::byte* own(std::size_t element_index) const { return static_cast<const std::byte*>(call().in.data()) + element_index * element(); }
  std::byte* out(std::size_t element_index) const { return static_cast<std::byte*>(call().out.data()) + element_index * element(); }
  /// Returns where the block of a rank begins, and how many elements it has.
  std::size_t block(int r) const {
    const auto index = static_cast<std::size_t>(r);
    return has_counts(call().operation) ? counts().before(index) : index * call().count;
  }
  std::size_t length(int r) const { return has_counts(call().operation) ? counts()[static_cast<std::size_t>(r)] : call().count; }

  /// Combines out[to …] from the same range of every rank's block, a piece at a time, so that the pieces of all ranks stay in cache.
  void combine_range(std::size_t to, std::size_t from, std::size_t count) {
    const std::size_t piece_bytes = piece_that_is_read(base::second_level_cache(), size());
    const std::size_t most = piece_bytes / element();
    const Pieces pieces(count, most);
    std::byte* scratch = nullptr;
    InputList inputs(size());
    for (std::size_t k = 0; k < pieces.count(); ++k) {
      const Range piece = pieces[k];
      for (int r = 0; r < size(); ++r) {
        const Source& in = ins_[static_cast<std::size_t>(r)];
        const std::size_t at = (from + piece.begin) * element();
        if (r == rank()) inputs[r] = own(from + piece.begin);
        else if (in.mapped != nullptr) inputs[r] = in.mapped + at;
        else {
          if (scratch == nullptr) scratch = engine().direct().scratch(static_cast<std::size_t>(size()) * piece_bytes);
          std::byte* const copy = scratch + static_cast<std::size_t>(r) * piece_bytes;
          if (!reader_.read(r, copy, in.address + at, piece.size() * element())) return;
          inputs[r] = copy;
        }
      }
      result().combine(out(to + piece.begin), inputs.data(), size(), piece.size(), call(), size());
    }
  }
  /// Copies elements of a rank's input, or output, to out[to …].
  void copy_in(std::size_t to, int r, std::size_t from, std::size_t count) {
    if (r == rank()) result().copy(out(to), own(from), count * element());
    else fetch(to, r, ins_[static_cast<std::size_t>(r)], from, count);
  }
  void copy_out(std::size_t to, int r, std::size_t from, std::size_t count) { fetch(to, r, outs_[static_cast<std::size_t>(r)], from, count); }

 private:
  void fetch(std::size_t to, int r, const Source& source, std::size_t from, std::size_t count) {
    reader_.copy(result(), out(to), r, source, from * element(), count * element());
  }

  void produce(std::size_t k) final {
    if (k == 0) give_counts(ElementsIn::buffer);
  }
  bool may_go_on() const final { return reader_.holds(); }
  std::optional<CopyTuner::Method> method() const final { return reads_ ? std::optional(CopyTuner::Method::read) : std::nullopt; }
  void consume(std::size_t k) final {
    if (k == 0) {
      const std::uint32_t step = step_number(0);
      DirectAccess& direct = engine().direct();
      if (!direct.agreed(step, call())) {
        refused_ = true;
        set_steps(1);
        return;
      }
      for (int r = 0; r < size(); ++r) {  // the lines are written again two steps later
        ins_.push_back(direct.in(r, step));
        outs_.push_back(direct.out(r, step));
      }
      reads_ = !direct.in_pools(step);
    }
    work(k);
  }

  bool refused_ = false;
  bool reads_ = false;  // private buffers
  PeerReader reader_;
  std::vector<Source> ins_, outs_;
};

class DirectAllReduce final : public DirectTask {
 public:
  DirectAllReduce(Lockstep& engine, const CollectiveCall& call) : DirectTask(engine, call, 3) {}

 private:
  Range slice(int r) const { return owned_part(call().count, element(), r, size()); }
  void work(std::size_t k) override {
    if (k == 0) {
      const Range mine = slice(rank());
      combine_range(mine.begin, mine.begin, mine.size());
    } else if (k == 1) {
      for (int i = 1; i < size(); ++i) {
        const int owner = (rank() + i) % size();  // each starts with another rank
        const Range part = slice(owner);
        copy_out(part.begin, owner, part.begin, part.size());
      }
    }
  }
};

/// The collectives that are done after the first step; the second one only confirms it.
class DirectRead final : public DirectTask {
 public:
  DirectRead(Lockstep& engine, const CollectiveCall& call) : DirectTask(engine, call, 2) {}

 private:
  void work(std::size_t k) override {
    if (k > 0) return;
    const std::size_t n = call().count;
    const int root = call().root;
    const bool is_root = rank() == root;
    switch (call().operation) {
      case Operation::reduce:
        if (is_root) combine_range(0, 0, n);
        break;
      case Operation::reduce_scatter:
      case Operation::reduce_scatter_v: combine_range(0, block(rank()), length(rank())); break;
      case Operation::broadcast:
        if (!is_root) copy_in(0, root, 0, n);
        break;
      case Operation::scatter:
      case Operation::scatter_v: copy_in(0, root, block(rank()), length(rank())); break;
      case Operation::gather:
      case Operation::gather_v:
        if (is_root) copy_blocks(0);
        break;
      case Operation::all_gather:
      case Operation::all_gather_v: copy_blocks(0); break;
      case Operation::all_to_all: copy_blocks(block(rank())); break;
      case Operation::all_reduce:
      case Operation::barrier:
      case Operation::scan:
      case Operation::exscan:
      case Operation::all_to_all_v:
      case Operation::send:
      case Operation::recv: break;
    }
  }
  /// Copies from every rank the block that begins at `from`.
  void copy_blocks(std::size_t from) {
    for (int i = 1; i <= size(); ++i) {
      const int r = (rank() + i) % size();
      copy_in(block(r), r, from, length(r));
    }
  }
};

inline std::unique_ptr<DirectTask> make_direct(Lockstep& engine, const CollectiveCall& call) {
  if (call.operation == Operation::all_reduce) return std::make_unique<DirectAllReduce>(engine, call);
  return std::make_unique<DirectRead>(engine, call);
}

}  // namespace unisono::engines::shm
