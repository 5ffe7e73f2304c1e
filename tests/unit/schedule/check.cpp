// What a machine has done, against the definition of the operation and the formula of the algorithm.
#include <algorithm>

#include <fmt/format.h>

#include "machine.h"

namespace unisono::schedule::testing {

std::string Machine::judge(int r, std::size_t i, Symbol symbol, const Case::Expected& expected, Order order) const {
  const auto wrong = [&](std::string_view what) { return fmt::format("rank {}, element {} of the output: {}", r, i, what); };
  if (!expected.is_written) return "";
  if (symbol == 0) return wrong("nothing has been written to it");
  const Symbols::Node& node = symbols_.at(symbol);
  if (expected.ranks == 0) {
    return symbol == symbols_.input(expected.source, expected.element)
               ? ""
               : wrong(fmt::format("it is not element {} of rank {}", expected.element, expected.source));
  }
  const std::uint64_t all = expected.ranks == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << expected.ranks) - 1;
  if (node.ranks != all || node.inputs != static_cast<std::uint32_t>(expected.ranks)) return wrong("it is not made of every rank's element once");
  if (node.element != expected.element) return wrong("it is made of other elements");
  if (node.is_divided != (case_.op == ReduceOp::avg && !case_.is_custom))
    return wrong(node.is_divided ? "it has been divided" : "it has not been divided");
  if (order <= Order::left_to_right && !node.is_left_fold) return wrong("it is not combined from left to right");
  if (order == Order::neighbours && !node.is_in_order) return wrong("it is not combined in the order of the ranks");
  return "";
}

std::string Machine::judge(Order order) const {
  if (order == Order::once && has_partials_) return "something is combined twice";
  if (order == Order::hosts && std::ranges::is_sorted(case_.hosts)) order = Order::neighbours;
  for (int r = 0; r < case_.size; ++r) {
    const Rank& rank = ranks_[static_cast<std::size_t>(r)];
    const std::vector<Case::Expected> expected = case_.expected(r);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Symbol symbol = rank.memory[rank.base[1] + i];
      if (std::string wrong = judge(r, i, symbol, expected[i], order); !wrong.empty()) return wrong;
      if (case_.operation == Operation::all_reduce && symbol != ranks_[0].memory[ranks_[0].base[1] + i]) {
        return fmt::format("rank {}, element {} of the output: rank 0 has other bits", r, i);
      }
    }
    const bool is_untouched = case_.operation == Operation::exscan && r == 0 && case_.buffers == Buffers::apart;
    for (std::size_t i = 0; is_untouched && i < expected.size(); ++i) {
      if (rank.memory[rank.base[1] + i] != 0) return "the output of rank 0 has been written to";
    }
  }
  return "";
}

Machine::Work Machine::work() const {
  Work most;
  for (const Rank& rank : ranks_) {
    most.rounds = std::max(most.rounds, rank.round);
    most.path = std::max(most.path, rank.path);
    most.messages = std::max(most.messages, static_cast<double>(std::max(rank.sends, rank.receives)));
    most.sent = std::max(most.sent, rank.work.sent);
    most.all_messages += static_cast<double>(rank.sends);
    most.all_sent += rank.work.sent;
    most.reduced = std::max(most.reduced, rank.work.reduced);
    most.copied = std::max(most.copied, rank.work.copied);
    most.scratch = std::max(most.scratch, rank.work.scratch);
  }
  return most;
}

namespace {

/// Compares the work with the formula: the rounds are equal; the rest is at most what the formula says, and exactly that where all parts are even.
/// (Fewer elements are copied where parts lie in their places already.)
std::string compare(const Case& one, const Machine::Work& work, const Cost& cost) {
  const auto ranks = static_cast<unsigned>(one.size);
  const bool is_even =
      std::has_single_bit(ranks) && one.count % ranks == 0 && one.count > 0 && one.buffers == Buffers::apart && one.root == 0 && one.hosts.empty();
  const auto differ = [&](std::string_view what, double is, double said, bool exactly) -> std::string {
    if (exactly ? is == said : is <= said) return "";
    return fmt::format("{} {}, where the formula says {}", is, what, said);
  };
  constexpr double slack = 1 + 1e-9;  // the means are rounded
  const double all_messages = cost.mean_messages * one.size * slack, all_sent = cost.mean_sent * one.size * slack;
  if (is_even && work.all_messages * slack * slack < all_messages)
    return fmt::format("{} messages, where the mean says {}", work.all_messages, all_messages);
  if (is_even && work.all_sent * slack * slack < all_sent)
    return fmt::format("{} elements sent by all, where the mean says {}", work.all_sent, all_sent);
  for (std::string wrong :
       {differ("rounds", work.rounds, cost.rounds, true), differ("messages", work.messages, cost.messages, is_even),
        differ("elements on the longest path", work.path, cost.path, is_even), differ("elements sent", work.sent, cost.sent, is_even),
        differ("messages of all ranks", work.all_messages, all_messages, false), differ("elements sent by all ranks", work.all_sent, all_sent, false),
        differ("elements combined", work.reduced, cost.reduced, is_even), differ("elements copied", work.copied, cost.copied, false),
        differ("elements of scratch", work.scratch, cost.scratch, is_even)}) {
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

Setting setting_of(const Case& one, const coordination::GroupTopology* topology, const NetworkParameters& network) {
  return {.engine = Abilities(nullptr, one.has_channels), .rail = Abilities(nullptr), .topology = topology, .network = network};
}

std::vector<Schedule> schedules_of(const Case& one, const Algorithm& algorithm, const NetworkParameters& network) {
  std::vector<Schedule> schedules(static_cast<std::size_t>(one.size));
  const std::vector<coordination::GroupTopology> topologies = one.topologies();
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    Builder builder(schedules[r]);
    algorithm.build(one.problem(static_cast<int>(r)), setting_of(one, topologies.empty() ? nullptr : &topologies[r], network), builder);
  }
  return schedules;
}

std::string check(const Case& one, const std::vector<Schedule>& schedules, Order order) {
  Machine machine(one, schedules);
  std::string wrong = machine.run();
  return wrong.empty() ? machine.judge(order) : wrong;
}

std::string check(const Case& one, const Algorithm& algorithm, const NetworkParameters& network) {
  const std::vector<Schedule> schedules = schedules_of(one, algorithm, network);
  Machine machine(one, schedules);
  if (std::string wrong = machine.run(); !wrong.empty()) return wrong;
  if (std::string wrong = machine.judge(algorithm.order); !wrong.empty()) return wrong;
  if (algorithm.cost == nullptr || !one.has_channels || one.blocks == Blocks::uneven || one.size == 1) return "";
  const int hosts = one.hosts.empty() ? 1 : *std::ranges::max_element(one.hosts) + 1;
  for (int h = 0; h < hosts && !one.hosts.empty(); ++h) {
    if (std::ranges::count(one.hosts, h) * hosts != one.size) return "";  // formulas are for hosts of the same size
  }
  const std::vector<coordination::GroupTopology> topologies = one.topologies();
  Cost cost = algorithm.cost(one.problem(0), setting_of(one, topologies.empty() ? nullptr : topologies.data(), network));
  for (int r = 1; r < one.size; ++r) {
    const Cost other =
        algorithm.cost(one.problem(r), setting_of(one, topologies.empty() ? nullptr : &topologies[static_cast<std::size_t>(r)], network));
    if (other != cost) return fmt::format("rank {} has another cost than rank 0", r);
  }
  return compare(one, machine.work(), cost);
}

}  // namespace unisono::schedule::testing
