#include "schedule/carried_call.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "schedule/scheduled_task.h"
#include "schedule/selection.h"

namespace unisono::schedule {
namespace {

using coordination::Carried;

/// Bytes that all ranks together may give. A message of so many takes a few microseconds more than an empty one.
constexpr std::size_t carried_bytes = std::size_t{16} << 10;
/// The same for a broadcast, which all ranks get in any case.
constexpr std::size_t carried_broadcast_bytes = std::size_t{64} << 10;
/// The same for counts, which a call with counts compares in any case.
constexpr std::size_t carried_counts_bytes = std::size_t{64} << 10;

/// Bytes of a message that goes directly. Its receiver copies it once more than it would after the comparison.
constexpr std::size_t directly_bytes = std::size_t{128} << 10;

/// Bytes that a connection takes for a rank that does not read yet.
constexpr double bytes_ahead = std::size_t{64} << 10;

/// Returns the cost of a comparison of the calls.
Cost cost_of_agreement(int hosts, bool is_crowded) {
  const double rounds = doublings(hosts), n = hosts;
  if (is_crowded) {  // a tree
    const double levels = std::ceil(rounds / doublings(coordination::Exchange::tree_radix));
    return {.rounds = 2 * levels, .messages = 2 * rounds, .mean_messages = 2 * (n - 1) / n};
  }
  const double steps = std::ceil(rounds / 2);
  return {.rounds = steps, .messages = 3 * steps, .mean_messages = 3 * steps};
}

/// Returns the cost of sending everything at once.
Cost cost_directly(const Problem& problem, const Setting& setting) {
  Cost cost = algorithms::cost_exchange(problem, setting);
  const OperationTraits& traits = traits_of(problem.operation);
  const double others = problem.size - 1, n = static_cast<double>(problem.count);
  cost.mean_messages = others;  // also those without elements, by which the calls are compared
  if (traits.reduces) cost.reduced = n * others;
  else cost.copied += n * (traits.senders == Participants::root ? 1 : others);
  cost.mean_copied = cost.copied;
  return cost;
}

/// Returns the cost of the first step of an all_reduce by shares of that length.
Cost cost_of_shares(std::size_t share, int ranks) {
  const double others = ranks - 1, sent = static_cast<double>(share) * others;
  return {.rounds = 1, .messages = others, .path = sent, .sent = sent, .mean_messages = others, .mean_sent = sent, .reduced = sent};
}

/// Returns the time of a direct exchange, the first step of a call, with messages of so many bytes. Ranks that share processors begin a call one
/// after the other, and each sends at once what a direct exchange has it send. So when the last one comes most of that has been done.
double direct_us(const Cost& cost, const Problem& problem, const NetworkParameters& network, double message_bytes) {
  const double us = predicted_us(cost, network, size_of(problem.dtype), 1);
  if (!network.is_crowded()) return us;
  const double behind = std::max(1 - bytes_ahead / std::max(message_bytes, 1.0), 0.0), first = 1 / network.crowding;
  return us * (first + (1 - first) * behind);
}

/// Returns the way of a call without counts between single ranks of hosts in which every rank sends what is for each of the others as the first step,
/// if it is predicted to be no slower than a schedule that begins after the comparison of the calls.
std::optional<Carried::Pattern> fastest_direct_pattern(const CollectiveCall& call, const Problem& problem, const Setting& setting) {
  const std::size_t element = size_of(problem.dtype), share = largest_share(problem.count, problem.size);
  const bool has_blocks = traits_of(call.operation).in == Layout::blocks, may_share = call.operation == Operation::all_reduce;
  std::optional<Carried::Pattern> best;
  if ((may_share ? share : problem.count) * element > directly_bytes) return best;
  double least = predicted_us(cost_of_agreement(problem.size, setting.network.is_crowded()) + cost_of(problem, setting), setting.network, element, 1);
  const auto consider = [&](Carried::Pattern pattern, std::size_t elements, const Cost& cost, double us_after) {
    const std::size_t bytes = elements * element;
    if (bytes > directly_bytes) return;
    const double us = direct_us(cost, problem, setting.network, static_cast<double>(bytes)) + us_after;
    if (us > least) return;
    best = pattern;
    least = us;
  };
  if (may_share) {
    const Problem gather{.operation = Operation::all_gather_v, .dtype = problem.dtype, .size = problem.size, .count = problem.count};
    const double us_after = predicted_us(cost_of(gather, setting), setting.network, element, 1);
    consider(Carried::Pattern::blocks, share, cost_of_shares(share, problem.size), us_after);
  }
  consider(has_blocks ? Carried::Pattern::blocks : Carried::Pattern::directly, problem.count, cost_directly(problem, setting), 0);
  return best;
}

}  // namespace

Carried contributions_to(const CollectiveCall& call, int ranks, int rank, Carried::Pattern pattern) {
  const OperationTraits& traits = traits_of(call.operation);
  Carried carried{.pattern = pattern};
  if (traits.in == Layout::nothing) return carried;
  const std::size_t block = call.count * size_of(call.in.dtype());
  const std::size_t all = (traits.in == Layout::blocks ? static_cast<std::size_t>(ranks) : 1) * block;
  carried.each = pattern == Carried::Pattern::blocks ? block : all;
  if (is_by_shares(call, pattern)) carried.each = largest_share(call.count, ranks) * size_of(call.in.dtype());
  if (traits.senders == Participants::root) carried.only = call.root;
  if (traits.receivers == Participants::root && carried.is_direct()) carried.towards = call.root;
  if (carried.only < 0 || carried.only == rank) carried.own = {static_cast<const std::byte*>(call.in.data()), all};
  return carried;
}

bool counts_travel(const CollectiveCall& call, const coordination::GroupTopology& topology) {
  const auto ranks = static_cast<std::size_t>(topology.size());
  return topology.host_count() > 1 && (call.counts.size() + call.recv_counts.size()) * sizeof(std::uint64_t) * ranks <= carried_counts_bytes;
}

std::optional<Carried::Pattern> pattern_with_agreement(const CollectiveCall& call, const Problem& problem, const Setting& setting) {
  const coordination::GroupTopology& topology = *setting.topology;
  if (has_counts(call.operation) || topology.host_count() < 2 || is_overridden(call.operation)) return std::nullopt;
  if (setting.engine.offers(call, topology.size())) return std::nullopt;
  const std::size_t most = call.operation == Operation::broadcast ? carried_broadcast_bytes : carried_bytes;
  if (contributions_to(call, topology.size(), topology.rank, Carried::Pattern::to_all).bytes(topology) <= most) return Carried::Pattern::to_all;
  if (is_prefix(call.operation) || topology.has_levels()) return std::nullopt;
  return fastest_direct_pattern(call, problem, setting);
}

CarriedCall::CarriedCall(coordination::Coordination& coordination, const CollectiveCall& call, Carried::Pattern pattern)
    : call_(call),
      topology_(coordination.topology()),
      carried_(contributions_to(call, topology_.size(), topology_.rank, pattern)),
      agreement_(coordination.start_agreement(call, &carried_)) {}

const std::byte* CarriedCall::from(int rank, std::size_t offset) const {
  if (!carried_.is_direct()) return carried_.of(rank, topology_) + offset;
  if (rank != topology_.rank) return carried_.from(rank, topology_).data();
  return own_.empty() ? carried_.own.data() + offset : own_.data();
}

bool CarriedCall::advance() {
  if (is_done_) return true;
  if (!agreement_->advance()) return false;
  is_done_ = true;
  const OperationTraits& traits = traits_of(call_.operation);
  if (takes_part(traits.receivers, call_.root == topology_.rank) && carried_.each > 0) traits.reduces ? reduce_elements() : move_elements();
  return true;
}

void CarriedCall::move_elements() const {
  const OperationTraits& traits = traits_of(call_.operation);
  const std::size_t block = call_.count * size_of(call_.in.dtype());
  const std::size_t begin = traits.in == Layout::blocks ? rank() * block : 0;
  auto* const out = static_cast<std::byte*>(call_.out.data());
  for (int r = 0; r < topology_.size(); ++r) {
    if (!contributes(traits, r, topology_.rank, {topology_.size(), call_.root})) continue;
    std::byte* const to = traits.out == Layout::blocks ? out + static_cast<std::size_t>(r) * block : out;
    if (const std::byte* const source = from(r, begin); source != to && block > 0) std::memcpy(to, source, block);
  }
}

void CarriedCall::reduce_elements() {
  const DType dtype = call_.in.dtype();
  const OperationTraits& traits = traits_of(call_.operation);
  const std::size_t block = call_.count * size_of(dtype), divisor = static_cast<std::size_t>(topology_.size());
  const std::size_t begin = has_shares() ? begin_of_share(rank()) : traits.in == Layout::blocks ? rank() * block : 0;
  const std::size_t bytes = has_shares() ? begin_of_share(rank() + 1) - begin : block;
  auto* const out = static_cast<std::byte*>(call_.out.data()) + (has_shares() ? begin : 0);
  std::size_t ranks = divisor;  // those that count are the first ones; the exclusive prefix of rank 0 is not defined, so its output stays as it is
  while (ranks > 0 && !contributes(traits, static_cast<int>(ranks) - 1, topology_.rank, {topology_.size(), call_.root})) --ranks;
  if (ranks == 0 || bytes == 0) return;
  if (carried_.is_direct() && (call_.custom || !has_shares())) {  // the result may take the place of the input
    const std::byte* const own = from(topology_.rank, begin);
    own_.assign(own, own + bytes);
  }
  std::vector<const void*> inputs;
  for (std::size_t r = 0; r < ranks; ++r) inputs.push_back(from(static_cast<int>(r), begin));
  combine_all(call_, out, inputs, bytes / size_of(dtype), call_.op, divisor);
}

std::optional<CollectiveCall> CarriedCall::rest() const {
  if (!has_shares()) return std::nullopt;
  const DType dtype = call_.in.dtype();
  std::vector<std::size_t> counts;
  for (std::size_t r = 0; r < static_cast<std::size_t>(topology_.size()); ++r) {
    counts.push_back((begin_of_share(r + 1) - begin_of_share(r)) / size_of(dtype));
  }
  CollectiveCall gather;
  gather.operation = Operation::all_gather_v;
  gather.in = TensorView(static_cast<std::byte*>(call_.out.data()) + begin_of_share(rank()), dtype, counts[rank()]);
  gather.out = TensorView(call_.out.data(), dtype, call_.count);
  gather.counts = Counts(counts);
  gather.count = call_.count;
  gather.sequence = call_.sequence;
  return gather;
}

}  // namespace unisono::schedule
