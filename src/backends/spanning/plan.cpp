#include "backends/spanning/plan.h"

#include <algorithm>
#include <cstring>

#include "kernels/reduce.h"
#include "unisono/error.h"

namespace unisono::backends {
namespace {

// Up to this size everybody sends everything to everybody: one stage instead of two.
constexpr std::size_t small_bytes = 4096;

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::int16:
    case DType::int32:
    case DType::int64:
    case DType::uint8:
    case DType::uint16:
    case DType::uint32:
    case DType::uint64: return true;
    default: return false;
  }
}

std::byte* at(const Tensor& tensor, std::size_t element) { return static_cast<std::byte*>(tensor.data()) + element * size_of(tensor.dtype()); }
Tensor part(const Tensor& tensor, std::size_t begin, std::size_t count) {
  return {tensor.data() == nullptr ? nullptr : at(tensor, begin), tensor.dtype(), count};
}

/// `count` elements shared out as evenly as possible.
Counts shares(std::size_t count, int parts, int of = 0) {
  std::vector<std::size_t> numbers(static_cast<std::size_t>(std::max(parts, of)), 0);
  const auto n = static_cast<std::size_t>(parts);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = count / n + (i < count % n ? 1 : 0);
  return Counts(numbers);
}
Counts same(std::size_t count, int parts) { return Counts(std::vector<std::size_t>(static_cast<std::size_t>(parts), count)); }

/// Combines `fan_in` blocks that lie one behind the other, from left to right.
void combine_blocks(const CollectiveCall& call, std::byte* out, const std::byte* blocks, std::size_t fan_in, std::size_t count, std::size_t divisor) {
  if (count == 0) return;
  const std::size_t bytes = count * size_of(call.in.dtype());
  if (call.custom) {
    std::memmove(out, blocks, bytes);
    for (std::size_t i = 1; i < fan_in; ++i) call.custom->apply(out, blocks + i * bytes, count);
    return;
  }
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < fan_in; ++i) inputs.push_back(blocks + i * bytes);
  kernels::reduce(out, inputs.data(), fan_in, count, call.in.dtype(), call.op, divisor);
}

/// A finished sum becomes an average.
void divide(const Tensor& sum, std::size_t by) {
  const void* input = sum.data();
  if (sum.numel() > 0) kernels::reduce(sum.data(), &input, 1, static_cast<std::size_t>(sum.numel()), sum.dtype(), ReduceOp::avg, by);
}

class Builder {
 public:
  Builder(const CollectiveCall& call, const Abilities& engine, int rank, Stage::On on, Scratch& scratch)
      : call_(call),
        engine_(engine),
        rank_(static_cast<std::size_t>(rank)),
        n_(static_cast<std::size_t>(engine.size())),
        on_(on),
        scratch_(scratch) {}

  std::vector<Stage> build() {
    if (!reduces(call_.operation) || engine_.reduces(call_)) {
      stages_.push_back({on_, call_, {}});
    } else if (!sum_and_divide()) {
      compose();
    }
    return std::move(stages_);
  }

 private:
  std::size_t element() const { return size_of(call_.in.dtype()); }
  Tensor room(std::size_t count) { return {scratch_.take(count * element()), call_.in.dtype(), count}; }
  void here(std::function<void()> work) { stages_.push_back({Stage::On::here, {}, std::move(work)}); }
  CollectiveCall move(Operation operation, const Tensor& in, const Tensor& out) const {
    CollectiveCall call;
    call.operation = operation;
    call.in = in;
    call.out = out;
    call.sequence = call_.sequence;
    return call;
  }
  void all_to_all_v(const Tensor& in, const Counts& send, const Tensor& out, const Counts& receive) {
    CollectiveCall call = move(Operation::all_to_all_v, in, out);
    call.counts = send;
    call.recv_counts = receive;
    stages_.push_back({on_, call, {}});
  }

  // An average of floating point numbers is a sum that is divided once, in place.
  bool sum_and_divide() {
    const DType dtype = call_.in.dtype();
    if (call_.custom || call_.op != ReduceOp::avg || is_half(dtype) || is_integer(dtype)) return false;
    CollectiveCall sum = call_;
    sum.op = ReduceOp::sum;
    if (!engine_.reduces(sum)) return false;
    stages_.push_back({on_, sum, {}});
    if (call_.operation == Operation::reduce && static_cast<int>(rank_) != call_.root) return true;
    if (call_.operation == Operation::exscan && rank_ == 0) return true;
    const Tensor out = call_.out;
    here([out, n = n_] { divide(out, n); });
    return true;
  }

  void compose() {
    switch (call_.operation) {
      case Operation::reduce_scatter: return scatter_blocks(same(call_.count, static_cast<int>(n_)));
      case Operation::reduce_scatter_v: return scatter_blocks(call_.counts);
      case Operation::scan:
      case Operation::exscan: return prefixes();
      default:
        if (call_.operation == Operation::all_reduce && call_.count * element() <= small_bytes) return everything();
        return by_shares();
    }
  }

  // What every rank has of this rank's block, one behind the other.
  std::byte* collect(const Counts& blocks) {
    const std::size_t own = blocks[rank_];
    const Tensor parts = room(own * n_);
    all_to_all_v(call_.in, blocks, parts, same(own, static_cast<int>(n_)));
    return static_cast<std::byte*>(parts.data());
  }

  void scatter_blocks(const Counts& blocks) {
    const std::byte* parts = collect(blocks);
    here([call = call_, parts, n = n_, own = blocks[rank_]] { combine_blocks(call, static_cast<std::byte*>(call.out.data()), parts, n, own, n); });
  }

  void everything() {
    const Tensor all = room(call_.count * n_);
    CollectiveCall gather = move(Operation::all_gather, call_.in, all);
    gather.count = call_.count;
    stages_.push_back({on_, gather, {}});
    here([call = call_, parts = static_cast<const std::byte*>(all.data()), n = n_] {
      combine_blocks(call, static_cast<std::byte*>(call.out.data()), parts, n, call.count, n);
    });
  }

  void by_shares() {
    const Counts blocks = shares(call_.count, static_cast<int>(n_));
    const std::byte* parts = collect(blocks);
    const Tensor mine = room(blocks[rank_]);
    here([call = call_, parts, n = n_, mine] {
      combine_blocks(call, static_cast<std::byte*>(mine.data()), parts, n, static_cast<std::size_t>(mine.numel()), n);
    });
    CollectiveCall gather = move(call_.operation == Operation::reduce ? Operation::gather_v : Operation::all_gather_v, mine, call_.out);
    if (call_.operation == Operation::reduce) {
      gather.root = call_.root;
      if (static_cast<int>(rank_) != call_.root) gather.out = Tensor(nullptr, call_.in.dtype(), std::size_t{0});
    }
    gather.counts = blocks;
    gather.count = call_.count;
    stages_.push_back({on_, gather, {}});
  }

  void prefixes() {
    const Counts blocks = shares(call_.count, static_cast<int>(n_));
    const std::size_t own = blocks[rank_];
    const std::byte* parts = collect(blocks);
    const Tensor made = room(own * n_);
    const bool exclusive = call_.operation == Operation::exscan;
    here([call = call_, parts, n = n_, own, to = static_cast<std::byte*>(made.data()), bytes = element(), exclusive] {
      for (std::size_t r = 0; r < n; ++r) {
        const std::size_t fan_in = exclusive ? std::max<std::size_t>(r, 1) : r + 1;  // what rank 0 gets of an exclusive one is left away
        combine_blocks(call, to + r * own * bytes, parts, fan_in, own, n);
      }
    });
    const Tensor target = exclusive && rank_ == 0 ? room(call_.count) : call_.out;
    all_to_all_v(made, same(own, static_cast<int>(n_)), target, blocks);
  }

  const CollectiveCall& call_;
  const Abilities& engine_;
  std::size_t rank_, n_;
  Stage::On on_;
  Scratch& scratch_;
  std::vector<Stage> stages_;
};

/// A call on the ranks of this host, with ranks as they are there.
CollectiveCall local_call(Operation operation, const CollectiveCall& of, const Tensor& in, const Tensor& out, const Counts& counts) {
  CollectiveCall call;
  call.operation = operation;
  call.in = in;
  call.out = out;
  call.op = of.op == ReduceOp::avg ? ReduceOp::sum : of.op;
  call.custom = of.custom;
  call.counts = counts;
  call.count = counts.total();
  call.sequence = of.sequence;
  return call;
}

}  // namespace

std::byte* Scratch::take(std::size_t bytes) {
  constexpr std::size_t least = std::size_t{64} << 10;
  constexpr std::size_t line = 64;
  bytes = (bytes + line - 1) / line * line;
  for (; block_ < blocks_.size(); ++block_, used_ = 0) {
    if (used_ + bytes + line <= blocks_[block_].second) break;
  }
  if (block_ == blocks_.size()) {
    const std::size_t size = std::max(bytes + line, least);
    blocks_.emplace_back(new std::byte[size], size);
    used_ = 0;
  }
  auto address = reinterpret_cast<std::uintptr_t>(blocks_[block_].first.get()) + used_;
  address = (address + line - 1) / line * line;
  used_ = static_cast<std::size_t>(address - reinterpret_cast<std::uintptr_t>(blocks_[block_].first.get())) + bytes;
  return reinterpret_cast<std::byte*>(address);
}

void Scratch::reset() {
  // Neither many pieces nor what one enormous call needed is worth keeping.
  constexpr std::size_t most = std::size_t{256} << 20;
  std::size_t total = 0;
  for (const auto& block : blocks_) total += block.second;
  if (blocks_.size() > 4 || total > most) blocks_.clear();
  block_ = used_ = 0;
}

bool Abilities::reduces(const CollectiveCall& call) const {
  if (engine_->device_type() == Device::Type::cpu && !call.custom) {
    if (size_ == 1) return false;  // what is true becomes 1 even there, which others only copy
    if (is_half(call.in.dtype()) && (size_ > 2 || call.op == ReduceOp::avg)) return false;
    if (is_integer(call.in.dtype()) && call.op == ReduceOp::avg) return false;
  }
  return engine_->offers(call);
}

std::vector<Stage> flat_plan(const CollectiveCall& call, const Abilities& engine, int rank, Stage::On on, Scratch& scratch) {
  return Builder(call, engine, rank, on, scratch).build();
}

std::vector<Stage> level_plan(const CollectiveCall& call, const Abilities& rail, const Place& place, Scratch& scratch) {
  const bool reduction = call.operation == Operation::all_reduce;
  if (!place.has_levels() || (!reduction && call.operation != Operation::broadcast)) return {};
  // Rounded once, averaged exactly: not on two levels.
  if (reduction && !call.custom && (is_half(call.in.dtype()) || (is_integer(call.in.dtype()) && call.op == ReduceOp::avg))) return {};
  if (call.count * size_of(call.in.dtype()) < small_bytes) return {};
  const auto own = static_cast<std::size_t>(place.local);
  const auto on_host = static_cast<int>(place.members.size());
  const Counts blocks = shares(call.count, place.rails, on_host);
  const std::size_t begin = blocks.before(own);
  const Tensor slice = part(call.out, begin, blocks[own]);
  std::vector<Stage> stages;

  if (reduction) {
    stages.push_back({Stage::On::host, local_call(Operation::reduce_scatter_v, call, call.in, slice, blocks), {}});
  } else if (place.here(call.root)) {
    CollectiveCall scatter = local_call(Operation::scatter_v, call, call.in, slice, blocks);
    scatter.root = place.local_of(call.root);
    if (call.root != place.rank) scatter.in = Tensor(nullptr, call.in.dtype(), std::size_t{0});
    stages.push_back({Stage::On::host, scatter, {}});
  }
  if (!place.rail.empty()) {
    CollectiveCall between = call;
    between.in = between.out = slice;
    between.count = blocks[own];
    if (call.op == ReduceOp::avg) between.op = ReduceOp::sum;
    if (!reduction) between.root = place.host_of(call.root);
    const auto inner = flat_plan(between, rail, place.host(), Stage::On::rail, scratch);
    stages.insert(stages.end(), inner.begin(), inner.end());
    if (reduction && call.op == ReduceOp::avg && !call.custom) {
      stages.push_back({Stage::On::here, {}, [slice, n = static_cast<std::size_t>(place.size())] { divide(slice, n); }});
    }
  }
  stages.push_back({Stage::On::host, local_call(Operation::all_gather_v, call, slice, call.out, blocks), {}});
  return stages;
}

}  // namespace unisono::backends
