// The events of a call: ranks follow their programs, messages become flows, and arrive. After LogGOPSim (Hoefler, Schneider, Lumsdaine 2010), with
// links that flows share.

#include "simulate/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "simulate/run.h"
#include "unisono/error.h"

namespace unisono::simulate {
namespace {

std::vector<LinkUse> uses_of(const Network& network, const Network& whole, const Flows& flows, double us, int calls) {
  std::vector<LinkUse> uses;
  for (std::size_t l = 0; l < network.levels().size(); ++l) {
    const LinkLevel& level = network.levels()[l];
    LinkUse use{.name = level.name, .links = whole.levels()[l].count, .gbit = level.bytes_per_us * 8 / 1000};
    double most_us = 0;
    for (int link = level.first; link < level.first + level.count; ++link) {
      const double bytes = flows.bytes(link) / calls;
      use.most_bytes = std::max(use.most_bytes, bytes);
      use.all_bytes += bytes;
      if (network.bytes_per_us(link) > 0) most_us = std::max(most_us, bytes / network.bytes_per_us(link));
    }
    use.all_bytes *= static_cast<double>(use.links) / level.count;
    use.busy = us > 0 ? most_us / us : 0;
    uses.push_back(use);
  }
  return uses;
}

/// Returns true where the ranks of one period stand for all.
bool can_fold(const Call& call, const SimulationOptions& options, const Programs& programs) {
  constexpr int many_periods = 16;  // the last one of which may be incomplete
  const int period = Network::period(options.network), hosts = call.hosts();
  if (options.folding == Folding::never || options.network.dead || !options.stragglers.empty() || options.parameters.cores > 0) return false;
  return programs.are_the_same() && hosts > period && (hosts % period == 0 || hosts >= many_periods * period);
}

void check(const Call& call, const SimulationOptions& options) {
  for (const Straggler& straggler : options.stragglers) {
    if (straggler.rank < 0 || straggler.rank >= call.ranks)
      throw InvalidArgument(fmt::format("rank {} cannot be late: there are {} ranks", straggler.rank, call.ranks));
  }
}

}  // namespace

Outcome simulate(const Call& call, const SimulationOptions& given) {
  SimulationOptions options = given;
  options.network.hosts = call.hosts();
  check(call, options);
  const Network whole(options.network, options.parameters, false);  // refuses a size that the topology has not
  ProgramWriter writer(call, options.parameters);
  const Programs programs(writer, call);
  const bool is_folded = can_fold(call, options, programs);
  const int computed = is_folded ? Network::period(options.network) * call.ranks_per_host : call.ranks;
  Outcome outcome{.algorithm = writer.algorithm(), .computed = computed};
  const double factor = static_cast<double>(call.ranks) / computed;
  double messages = 0;
  for (int r = 0; r < computed; ++r) {
    const Program& program = programs.of(r);
    messages += static_cast<double>(program.messages) * call.calls;
    outcome.rounds = std::max(outcome.rounds, program.rounds);
    outcome.connections = std::max(outcome.connections, program.connections);
    outcome.scratch_bytes = std::max(outcome.scratch_bytes, program.scratch_bytes);
  }
  outcome.messages = messages * factor / call.calls;
  if (messages > options.most_messages) {
    throw TooLarge(fmt::format("'{}' on {} ranks has {:.3g} messages that must be followed one by one, and the limit is {:.3g}", outcome.algorithm,
                               call.ranks, messages, options.most_messages));
  }
  const Network network(options.network, options.parameters, is_folded);
  Flows flows(network);
  Run run(call, options, programs, network, flows, computed);
  run.carry_out(options.progress ? [&](double arrived) { options.progress(arrived / messages); } : std::function<void(double)>());
  outcome.us = run.last_end() - run.last_begin();
  outcome.first_us = run.first_end() - run.last_begin();
  outcome.bytes = run.bytes() * factor / call.calls;
  outcome.cut_off = run.unfinished();
  outcome.links = uses_of(network, whole, flows, outcome.us, call.calls);
  return outcome;
}

}  // namespace unisono::simulate
