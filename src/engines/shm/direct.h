#pragma once

#include <vector>

#include "engines/shm/counted_task.h"
#include "engines/shm/pieces.h"

// The collectives on buffers that the ranks read where they lie, without staging. Ranks only read each other's memory, so a rank that has given up a
// call is never written to. With S bytes a rank and P ranks, a rank reads and writes:
//   all_reduce       read S, write S/P; read (P-1) S/P, write as much     every rank combines the slice it owns, then fetches the others'
//   reduce, gather   read P S, write S or P S at the root · broadcast, scatter   read S, write S · reduce_scatter   read P S, write S
//   all_gather, all_to_all   read and write P S
// Blocks of different length are read in the same way: their counts are compared in the step of the announcement. all_to_all_v alone is in
// all_to_all_v.h, since no rank knows before that step what the others send.

namespace unisono::engines::shm {

/// Step 0 announces and compares. If all agree, the work begins there, and another step confirms that all ranks have read what they need. If the
/// ranks' buffers do not all lie in reach, nothing is moved, and the call is still to be carried out.
class DirectTask final : public CountedTask {
 public:
  DirectTask(Lockstep& engine, const CollectiveCall& call)
      : CountedTask(engine, call, fetches(traits_of(call.operation)) ? 3 : 2, more_than_a_line) {}

 private:
  static constexpr std::size_t more_than_a_line = std::size_t{1} << 20;

  /// Returns true where the ranks fetch what the others have combined, in a step of its own.
  static bool fetches(const OperationTraits& traits) {
    return traits.reduces && traits.out == Layout::whole && traits.receivers == Participants::all_ranks;
  }
  Range slice(int r) const { return owned_part(call().count, element(), r, size()); }

  void produce(std::size_t k) override {
    if (k == 0) give_counts(ElementsIn::buffer);
  }
  bool may_go_on() const override { return engine().direct().holds(); }
  void consume(std::size_t k) override {
    if (k == 0 && accepts()) combine_or_copy();
    if (k == 1 && fetches(traits_of(call().operation))) fetch_slices();
  }
  /// Returns true where all ranks carry the call out in this way.
  bool accepts() {
    const std::uint32_t step = step_number(0);
    DirectAccess& direct = engine().direct();
    if (!direct.agreed(step)) {
      set_steps(1);
      return false;
    }
    for (int r = 0; r < size(); ++r) {  // the lines are written again two steps later
      ins_.push_back(direct.in(r, step));
      outs_.push_back(direct.out(r, step));
    }
    return true;
  }
  void combine_or_copy() {
    const OperationTraits& traits = traits_of(call().operation);
    const std::size_t own_block = traits.in == Layout::blocks ? block(rank()) : 0;
    if (traits.senders == Participants::root) {
      if (traits.in == Layout::blocks || !is_root()) copy_in(0, call().root, own_block, length(rank()));
    } else if (!is_receiver()) {
      return;
    } else if (fetches(traits)) {
      const Range mine = slice(rank());
      combine_range(mine.begin, mine.begin, mine.size());
    } else if (traits.reduces) {
      combine_range(0, own_block, length(rank()));
    } else {
      copy_blocks(own_block);
    }
  }
  void fetch_slices() {
    for (int i = 1; i < size(); ++i) {
      const int owner = engine().rank_after(i);  // each starts with another rank
      const Range part = slice(owner);
      fetch(part.begin, outs_[static_cast<std::size_t>(owner)], part.begin, part.size());
    }
  }
  /// Copies from every rank the block that begins at `from`.
  void copy_blocks(std::size_t from) {
    for (int i = 1; i <= size(); ++i) {
      const int r = engine().rank_after(i);
      copy_in(block(r), r, from, length(r));
    }
  }
  /// Copies elements of a rank's input to out[to …].
  void copy_in(std::size_t to, int r, std::size_t from, std::size_t count) {
    if (r == rank()) result().copy(out(to), in(from), bytes(count));
    else fetch(to, ins_[static_cast<std::size_t>(r)], from, count);
  }
  void fetch(std::size_t to, const std::byte* source, std::size_t from, std::size_t count) {
    if (count != 0) result().copy(out(to), source + bytes(from), bytes(count));
  }
  /// Combines out[to …] from the same range of every rank's block.
  void combine_range(std::size_t to, std::size_t from, std::size_t count) {
    if (count == 0) return;
    InputList inputs(size());
    for (int r = 0; r < size(); ++r) inputs[r] = ins_[static_cast<std::size_t>(r)] + bytes(from);
    result().combine(out(to), inputs.data(), size(), count, call(), size());
  }

  std::vector<const std::byte*> ins_, outs_;
};

}  // namespace unisono::engines::shm
