#include "schedule/schedule_choice.h"

#include <fmt/format.h>

#include "base/log.h"
#include "schedule/carried_call.h"
#include "schedule/selection.h"
#include "unisono/detail/floating_point.h"

namespace unisono::schedule {

ScheduleChoice::ScheduleChoice(const LevelEngines& engines, SharedNetworks networks)
    : engines_(engines), coordination_(engines.coordination()), networks_(std::move(networks)), network_(parse_network(network_override())) {
  if (network_) {
    origin_of_network_ = "given by UNISONO_NETWORK";
  } else {
    origin_of_network_ = "assumed";
    if (!is_composed()) network_.emplace();
  }
}

// An engine with collectives of its own leaves little to choose.
bool ScheduleChoice::is_composed() const {
  const Problem sum{.operation = Operation::all_reduce, .dtype = DType::float32, .size = coordination_.size(), .count = 1};
  return engines_.group().has_channels() && !engines_.group().blocks() && !Abilities(engines_.all().group.get()).offers(sum);
}

Problem ScheduleChoice::problem_of(const CollectiveCall& call) const {
  Problem problem;
  problem.operation = call.operation;
  problem.dtype = call.in.dtype();
  problem.op = call.op;
  problem.is_custom = call.custom != nullptr;
  problem.is_deterministic = call.deterministic;
  problem.is_in_place = call.in.data() == call.out.data();
  problem.rank = coordination_.rank();
  problem.size = coordination_.size();
  problem.root = call.root;
  problem.count = call.count;
  problem.counts = call.counts;
  problem.recv_counts = call.recv_counts;
  problem.in = {Slice::Memory::input, 0, static_cast<std::size_t>(call.in.numel())};
  problem.out = {Slice::Memory::output, 0, static_cast<std::size_t>(call.out.numel())};
  return problem;
}

Schedule ScheduleChoice::schedule_of(const CollectiveCall& call) const {
  Schedule schedule;
  if (call.operation == Operation::barrier) return schedule;  // the agreement was one
  const detail::FixedFloatingPoint fixed;                     // all ranks choose the same algorithm
  Builder builder(schedule);
  schedule.algorithm = build(problem_of(call), setting(), builder);
  return schedule;
}

Setting ScheduleChoice::setting() const {
  return {.engine = Abilities(engines_.all().group.get()),
          .rail = Abilities(engines_.all().rail.get()),
          .topology = &coordination_.topology(),
          .network = network_.value_or(NetworkParameters())};
}

std::optional<coordination::Carried::Pattern> ScheduleChoice::pattern_of(const CollectiveCall& call) const {
  const detail::FixedFloatingPoint fixed;
  const auto pattern = pattern_with_agreement(call, problem_of(call), setting());
  const bool is_direct = pattern && *pattern != coordination::Carried::Pattern::to_all;
  return is_direct && needs_calibration() ? std::nullopt : pattern;  // which way is the faster one has to be measured
}

std::optional<NetworkParameters> ScheduleChoice::network_of_earlier_group() const {
  return networks_.measured->find(engines_.group().name(), networks_.hosts);
}

void ScheduleChoice::set_network(const NetworkParameters& network, bool was_known) {
  network_ = network;
  origin_of_network_ = was_known ? "measured by an earlier group on these hosts" : "measured";
  if (networks_.measured) networks_.measured->keep(engines_.group().name(), networks_.hosts, *network_);
  base::debug(fmt::format("the network between {} hosts, {}", coordination_.topology().host_count(), describe_network()));
}

std::string ScheduleChoice::describe_network() const {
  const NetworkParameters network = network_.value_or(NetworkParameters());
  const std::string text = fmt::format("{}: {} (UNISONO_NETWORK={})", origin_of_network_, describe(network), text_of(network));
  const bool may_be_replaced = network.is_crowded() && origin_of_network_.starts_with("measured");
  return may_be_replaced ? text + "; ranks share processors, so figures near the loopback interface's are replaced by its fixed ones" : text;
}

std::vector<std::pair<std::string, std::string>> ScheduleChoice::describe_choices() const { return describe_table(setting()); }

}  // namespace unisono::schedule
