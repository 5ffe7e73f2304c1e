#include "schedule/carried_call.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/reduce.h"
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
  const auto ranks = static_cast<double>(problem.size), n = static_cast<double>(problem.count);
  if (traits_of(problem.operation).reduces) cost.reduced = n * (ranks - 1);
  else cost.copied += n * (ranks - 1);
  cost.mean_copied = cost.copied;
  return cost;
}

/// Returns the cost of the first step of an all_reduce by shares of that length (carried_sum.h).
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

/// Returns the way of a call without counts between single ranks of hosts in which every rank sends to each of the others as the first step, if it is
/// predicted to be no slower than a schedule that begins after the comparison of the calls.
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
  if (!is_from_all_to_all(traits_of(call.operation)) || topology.has_levels()) return std::nullopt;
  return fastest_direct_pattern(call, problem, setting);
}

CarriedCall::CarriedCall(coordination::Coordination& coordination, const CollectiveCall& call, Carried::Pattern pattern)
    : coordination_(coordination),
      call_(call),
      carried_(contributions_to(call, coordination.size(), coordination.rank(), pattern)),
      agreement_(coordination.start_agreement(call, &carried_)) {}

const std::byte* CarriedCall::from(int rank, std::size_t offset) const {
  if (!carried_.is_direct()) return carried_.of(rank, coordination_.topology()) + offset;
  if (rank != coordination_.rank()) return carried_.from(rank, coordination_.topology()).data();
  if (!own_.empty()) return own_.data();
  return carried_.own.data() + (carried_.pattern == Carried::Pattern::blocks ? offset : 0);
}

bool CarriedCall::advance() {
  if (is_done_) return true;
  if (!agreement_->advance()) return false;
  is_done_ = true;
  const OperationTraits& traits = traits_of(call_.operation);
  if (takes_part(traits.receivers, call_.root == coordination_.rank()) && carried_.each > 0) traits.reduces ? reduce_elements() : move_elements();
  return true;
}

void CarriedCall::move_elements() const {
  const OperationTraits& traits = traits_of(call_.operation);
  const std::size_t block = call_.count * size_of(call_.in.dtype());
  const std::size_t begin = traits.in == Layout::blocks ? rank() * block : 0;
  auto* const out = static_cast<std::byte*>(call_.out.data());
  for (int r = 0; r < coordination_.size(); ++r) {
    if (!contributes(traits, r, coordination_.rank(), {coordination_.size(), call_.root})) continue;
    std::byte* const to = traits.out == Layout::blocks ? out + static_cast<std::size_t>(r) * block : out;
    if (const std::byte* const source = from(r, begin); source != to && block > 0) std::memcpy(to, source, block);
  }
}

void CarriedCall::reduce_elements() {
  const DType dtype = call_.in.dtype();
  const std::size_t block = call_.count * size_of(dtype);
  const OperationTraits& traits = traits_of(call_.operation);
  const std::size_t begin = traits.in == Layout::blocks ? rank() * block : 0;
  const auto divisor = static_cast<std::size_t>(coordination_.size());
  const CallRanks all{coordination_.size(), call_.root};
  std::size_t ranks = divisor;  // those that count are the first ones
  while (ranks > 0 && !contributes(traits, static_cast<int>(ranks) - 1, coordination_.rank(), all)) --ranks;
  if (ranks == 0) return;      // the exclusive prefix of rank 0 is not defined: its output stays as it is
  if (carried_.is_direct()) {  // the result may take the place of the input
    const std::byte* const own = from(coordination_.rank(), begin);
    own_.assign(own, own + block);
  }
  std::vector<const void*> inputs;
  for (std::size_t r = 0; r < ranks; ++r) inputs.push_back(from(static_cast<int>(r), begin));
  if (!call_.custom) return kernels::reduce(call_.out.data(), inputs.data(), ranks, call_.count, dtype, call_.op, divisor);
  std::memcpy(call_.out.data(), inputs.front(), block);
  for (std::size_t r = 1; r < ranks; ++r) call_.custom->combine(call_.out.data(), inputs[r], call_.count);
}

CountsAgreement::CountsAgreement(coordination::Coordination& coordination, const CollectiveCall& call)
    : coordination_(coordination), comparison_(call, coordination.rank(), coordination.size()), gather_(comparison_.gather()) {
  carried_.each = gather_.in.bytes();
  carried_.own = {static_cast<const std::byte*>(gather_.in.data()), carried_.each};
  agreement_ = coordination_.start_agreement(call, &carried_);
}

bool CountsAgreement::advance() {
  if (is_done_) return true;
  if (!agreement_->advance()) return false;
  is_done_ = true;
  auto* const all = static_cast<std::byte*>(gather_.out.data());
  for (int r = 0; r < coordination_.size(); ++r) {
    std::memcpy(all + static_cast<std::size_t>(r) * carried_.each, carried_.of(r, coordination_.topology()), carried_.each);
  }
  comparison_.judge();
  return true;
}

}  // namespace unisono::schedule
