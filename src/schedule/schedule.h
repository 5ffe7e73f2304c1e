#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/counts.h"
#include "unisono/operation.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::schedule {

/// Elements of one of a call's buffers, or of memory that its schedule needs temporarily. All numbers count elements of the call's dtype.
struct Slice {
  enum class Memory : std::uint8_t { input, output, scratch };
  Memory memory = Memory::input;
  std::size_t begin = 0;
  std::size_t count = 0;

  Slice part(std::size_t offset, std::size_t n) const { return {memory, begin + offset, n}; }
};

/// The ranks that take part in a step: those of this host, those of this rank's rail (GroupTopology), or the whole group. Each level has an engine,
/// and numbers its ranks 0 ... n-1 in group order.
enum class Level : std::uint8_t { host, rail, group };

/// A collective as an algorithm sees it: the task of one rank of one level, without memory and connections.
struct Problem {
  Operation operation = Operation::barrier;
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;
  bool is_custom = false;         ///< a user's callable instead of `op`
  bool is_in_place = false;       ///< input and output are the same memory
  bool is_deterministic = false;  ///< the bits of the result are those of a combination from rank 0 to the last, whatever the schedule
  Level level = Level::group;
  int rank = 0, size = 1;
  int root = -1;
  std::size_t count = 0;  ///< as in a CollectiveCall
  Counts counts = {}, recv_counts = {};
  std::size_t typical_block = 0;  ///< of an all_to_all_v: a length that all ranks agree on, by which the algorithm is chosen
  Slice in = {}, out = {.memory = Slice::Memory::output};

  std::size_t bytes() const { return count * size_of(dtype); }
  bool is_root() const { return rank == root; }
};

/// A step of a schedule, on one rank.
struct Step {
  enum class Kind : std::uint8_t {
    engine,   ///< a whole collective of the level's engine: `call`
    send,     ///< sends `in` to `peer`
    receive,  ///< receives `out` from `peer`
    reduce,   ///< combines, from left to right, the `blocks` blocks in `in` (each of the length of `out`) into `out`
    combine,  ///< combines `in`, the left one, with `with`, the right one, into `out`, which may be either of them
    copy,     ///< copies `in` to `out`
    divide,   ///< divides every element of `out` by `divisor`
  };
  Kind kind = Kind::copy;
  Level level = Level::group;
  std::uint32_t wave = 0;  ///< the steps of a wave begin together, when the wave before has ended; none of them needs what another one writes
  Slice in = {}, out = {}, with = {};
  int peer = -1;
  ReduceOp op = ReduceOp::sum;  ///< of a reduce or combine, where the call has no user's callable
  std::size_t blocks = 0;
  std::size_t divisor = 1;  ///< of a reduce whose op is avg, and of a divide
  Problem call = {};        ///< of an engine step

  /// Returns true for a step that this rank takes by itself.
  bool is_local() const { return kind != Kind::engine && kind != Kind::send && kind != Kind::receive; }
};

/// The work of one rank in one call, as data: it can be carried out, and tests can check it without connections.
struct Schedule {
  std::string_view algorithm = {};
  std::vector<Step> steps = {};
  std::size_t scratch = 0;  ///< elements
};

/// Adds steps to a schedule.
class Builder {
 public:
  explicit Builder(Schedule& schedule) : schedule_(schedule) {}

  /// Reserves memory for so many elements, at an address that is a multiple of 64 bytes.
  Slice scratch(std::size_t count) {
    constexpr std::size_t alignment = 64;  // in elements, so the address is a multiple of it in bytes as well
    const Slice slice{Slice::Memory::scratch, schedule_.scratch, count};
    schedule_.scratch += (count + alignment - 1) / alignment * alignment;
    return slice;
  }
  void engine(const Problem& call) {
    Step& step = add(Step::Kind::engine, call.level, call.in, call.out);
    step.call = call;
    next_wave();
  }
  void send(Level level, int peer, const Slice& in) { add(Step::Kind::send, level, in, {}).peer = peer; }
  void receive(Level level, int peer, const Slice& out) { add(Step::Kind::receive, level, {}, out).peer = peer; }
  /// Receives and sends at the same time, in a wave of their own.
  void exchange(Level level, int from, const Slice& out, int target, const Slice& in) {
    receive(level, from, out);
    send(level, target, in);
    next_wave();
  }
  void copy(const Slice& out, const Slice& in) {
    const std::size_t n = std::min(in.count, out.count);
    if (n > 0) add(Step::Kind::copy, Level::group, in.part(0, n), out.part(0, n));
  }
  void reduce(ReduceOp op, const Slice& out, const Slice& in, std::size_t blocks, std::size_t divisor) {
    if (out.count == 0) return;
    Step& step = add(Step::Kind::reduce, Level::group, in, out);
    step.op = op;
    step.blocks = blocks;
    step.divisor = divisor;
  }
  void combine(ReduceOp op, const Slice& out, const Slice& left, const Slice& right) {
    if (out.count == 0) return;
    Step& step = add(Step::Kind::combine, Level::group, left, out);
    step.with = right;
    step.op = op;
  }
  void divide(const Slice& out, std::size_t divisor) {
    if (out.count > 0) add(Step::Kind::divide, Level::group, {}, out).divisor = divisor;
  }
  /// Begins a wave: steps that are added from now on begin when all earlier ones have ended.
  void next_wave() {
    if (!schedule_.steps.empty() && schedule_.steps.back().wave == wave_) ++wave_;
  }

 private:
  Step& add(Step::Kind kind, Level level, const Slice& in, const Slice& out) {
    return schedule_.steps.emplace_back(Step{.kind = kind, .level = level, .wave = wave_, .in = in, .out = out});
  }

  Schedule& schedule_;
  std::uint32_t wave_ = 0;
};

/// Divides `count` elements among so many parts as evenly as possible; returns `of` numbers, the last ones 0.
inline Counts shares(std::size_t count, int parts, int of = 0) {
  std::vector<std::size_t> numbers(static_cast<std::size_t>(std::max(parts, of)), 0);
  const auto n = static_cast<std::size_t>(parts);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = count / n + (i < count % n ? 1 : 0);
  return Counts(numbers);
}
inline Counts same(std::size_t count, int parts) { return Counts(std::vector<std::size_t>(static_cast<std::size_t>(parts), count)); }

inline bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
inline bool is_integer(DType dtype) { return dtype >= DType::int8 && dtype <= DType::uint64; }

/// Returns true where partial results are exact, so that every order of combination gives the same bits.
inline bool is_exact(DType dtype, ReduceOp op, bool is_custom) {
  return !is_custom && op != ReduceOp::avg && (is_integer(dtype) || dtype == DType::boolean);
}

}  // namespace unisono::schedule
