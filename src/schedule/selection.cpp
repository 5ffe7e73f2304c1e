#include "schedule/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/environment.h"
#include "unisono/error.h"

namespace unisono::schedule {
namespace {

const Algorithm* find(Operation operation, std::string_view name) {
  const std::span<const Algorithm> rows = rows_of(operation);
  const auto found = std::ranges::find(rows, name, &Algorithm::name);
  return found == rows.end() ? nullptr : &*found;
}

using Overrides = std::map<Operation, const Algorithm*>;

Overrides parse(std::string_view text) {
  Overrides overrides;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view entry = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = entry.find('=');
    const std::string_view operation = entry.substr(0, equals);
    const auto row = std::ranges::find(operation_table, operation, &OperationTraits::name);
    if (equals == std::string_view::npos || row == operation_table.end()) {
      throw InvalidArgument(fmt::format("UNISONO_SCHEDULE: \"{}\" is not OPERATION=ALGORITHM", entry),
                            {.hint = "unisono info --schedules shows the operations and their algorithms"});
    }
    const std::string_view name = entry.substr(equals + 1);
    const Algorithm* const algorithm = find(row->operation, name);
    if (algorithm == nullptr) {
      std::vector<std::string_view> names;
      for (const Algorithm& each : rows_of(row->operation)) names.push_back(each.name);
      throw InvalidArgument(fmt::format("UNISONO_SCHEDULE: {} has no algorithm \"{}\"; it has {}", operation, name,
                                        names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", "))));
    }
    overrides[row->operation] = algorithm;
  }
  return overrides;
}

const Overrides& overrides() {
  static const Overrides& instance = *new Overrides(parse(schedule_override()));
  return instance;
}

/// Stands for a user's callable where only its presence counts.
const std::shared_ptr<const detail::CustomReduction>& any_callable() {
  static const auto& callable = *new std::shared_ptr<const detail::CustomReduction>(std::make_shared<detail::CustomReduction>());
  return callable;
}

bool gives_the_same_in_every_order(const Problem& problem) { return is_exact(problem.dtype, problem.op, problem.is_custom); }

/// Returns true where partial results would be rounded, or lose what an average needs.
bool needs_one_step(const Problem& problem) {
  if (problem.is_custom) return false;
  if (is_half(problem.dtype)) return problem.size > 2 || problem.op == ReduceOp::avg;
  return is_integer(problem.dtype) && problem.op == ReduceOp::avg;
}

// Algorithms on two levels, where the engine offers the collective of all ranks as well. Measured on one host over loopback
// (bench/results/between-hosts.md).
constexpr std::size_t at_least_bytes_on_two_levels = 4096;

/// Returns the setting of a group with its number of ranks for each connection.
Setting complete(const Problem& problem, const Setting& setting) {
  Setting completed = setting;
  if (problem.level == Level::group && setting.topology != nullptr && setting.topology->has_levels()) {
    completed.sharing = static_cast<int>(largest_share(static_cast<std::size_t>(setting.topology->size()), setting.topology->host_count()));
  }
  return completed;
}

/// Returns the setting for an algorithm: one on a single level is made of parts on a single level.
Setting setting_for(const Algorithm& algorithm, const Setting& setting) {
  Setting own = setting;
  if (!algorithm.on_two_levels) own.topology = nullptr;
  return own;
}

/// Returns all that the cheapest of some algorithms depends on. `rows`: those that can be used, a bit each. It holds no addresses, since another
/// engine may come to lie at the same one.
auto question_of(std::uint64_t rows, const Problem& problem, const Setting& setting) {
  const coordination::GroupTopology* const topology = setting.topology;
  return std::tuple(rows, problem.count, problem.typical_block, problem.operation, problem.dtype, problem.op, problem.is_custom,
                    problem.is_deterministic, problem.size, problem.root, setting.engine.has_channels(), setting.sharing, setting.network,
                    topology != nullptr ? topology->host_count() : 0, topology != nullptr ? topology->rails : 0,
                    topology != nullptr && problem.root >= 0 ? topology->host_of(problem.root) : -1);
}

std::size_t hash_of(std::uint64_t rows, const Problem& problem) {
  std::size_t all = problem.count;
  for (const std::size_t part :
       {problem.typical_block, static_cast<std::size_t>(problem.operation), static_cast<std::size_t>(problem.dtype),
        static_cast<std::size_t>(problem.size), static_cast<std::size_t>(problem.root + 1), static_cast<std::size_t>(rows)}) {
    all = (all ^ part) * 0x9E3779B97F4A7C15U;
  }
  return all >> 40;
}

/// Returns the cheapest of the algorithms whose bits are set; the first one of those that cost the same. The engine is not asked whether it offers
/// their parts, so that the answer depends on the question alone.
const Algorithm& cheapest(std::span<const Algorithm> rows, std::uint64_t usable, const Problem& problem, Setting setting) {
  setting.engine = setting.engine.without_collectives();
  const Algorithm* best = nullptr;
  double least = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if ((usable >> i & 1) == 0) continue;
    const double us = predicted_us(rows[i].cost(problem, setting_for(rows[i], setting)), setting.network, size_of(problem.dtype), setting.sharing);
    if (best != nullptr && us >= least) continue;
    best = &rows[i];
    least = us;
  }
  if (best == nullptr) throw Unsupported(fmt::format("no schedule does {}", to_string(problem.operation)));
  return *best;
}

/// The same from memory, where this thread has asked before: the formulas of all algorithms and their parts take some microseconds.
const Algorithm& remembered_cheapest(std::span<const Algorithm> rows, std::uint64_t usable, const Problem& problem, const Setting& setting) {
  if (std::has_single_bit(usable)) return rows[static_cast<std::size_t>(std::countr_zero(usable))];
  struct Answer {
    decltype(question_of(0, problem, setting)) question;
    const Algorithm* algorithm = nullptr;
  };
  thread_local std::array<Answer, 32> answers;
  const auto question = question_of(usable, problem, setting);
  Answer& answer = answers[hash_of(usable, problem) % answers.size()];
  if (answer.algorithm == nullptr || answer.question != question) {
    const Algorithm& found = cheapest(rows, usable, problem, setting);  // which may ask for its parts, and replace this answer
    answer = {question, &found};
  }
  return *answer.algorithm;
}

const Algorithm& choose(const Problem& problem, const Setting& setting) {
  if (const auto wanted = overrides().find(problem.operation); wanted != overrides().end() && can(*wanted->second, problem, setting)) {
    return *wanted->second;
  }
  const std::span<const Algorithm> rows = rows_of(problem.operation);
  const Algorithm* on_two_levels = nullptr;
  std::uint64_t usable = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Algorithm& row = rows[i];
    if (!can(row, problem, setting)) continue;
    if (row.cost == nullptr) return on_two_levels != nullptr && problem.bytes() >= at_least_bytes_on_two_levels ? *on_two_levels : row;
    if (row.on_two_levels) on_two_levels = &row;
    usable |= std::uint64_t{1} << i;
  }
  return remembered_cheapest(rows, usable, problem, setting);
}

}  // namespace

bool is_allowed(Order order, const Problem& problem, const Setting& setting) {
  if (order == Order::none || order == Order::once) return true;
  if (order == Order::engine) return !problem.is_deterministic || gives_the_same_in_every_order(problem);
  if (needs_one_step(problem)) return false;
  if (order == Order::hosts) {
    const bool are_neighbours = problem.is_custom && setting.topology != nullptr && std::ranges::is_sorted(setting.topology->hosts);
    order = are_neighbours ? Order::neighbours : Order::any;
  }
  if (problem.is_deterministic && !gives_the_same_in_every_order(problem) && order > (problem.size > 2 ? Order::left_to_right : Order::neighbours))
    return false;
  return !problem.is_custom || order <= Order::neighbours;
}

CollectiveCall call_without_memory(const Problem& problem) {
  CollectiveCall call;
  call.operation = problem.operation;
  call.in = TensorView(nullptr, problem.dtype, problem.in.count);
  call.out = TensorView(nullptr, problem.dtype, problem.out.count);
  call.count = problem.count;
  call.op = problem.op;
  call.deterministic = problem.is_deterministic;
  call.root = problem.root;
  call.counts = problem.counts;
  call.recv_counts = problem.recv_counts;
  return call;
}

bool Abilities::offers(const Problem& problem) const {
  if (engine_ == nullptr) return !has_channels_ && problem.operation == Operation::all_to_all_v;
  CollectiveCall call = call_without_memory(problem);
  if (problem.is_custom) call.custom = any_callable();
  return offers(call, problem.size);
}

bool Abilities::offers(const CollectiveCall& call, int size) const {
  if (engine_ == nullptr) return false;
  if (call.deterministic && !is_exact(call.in.dtype(), call.op, call.custom != nullptr)) return false;  // the engine has an order of its own
  if (reduces(call.operation) && engine_->device_type() == Device::Type::cpu && !call.custom) {
    const DType dtype = call.in.dtype();
    if (size == 1) return false;  // land and lor turn true into 1 even there, and other engines only copy
    if (is_half(dtype) && (size > 2 || call.op == ReduceOp::avg)) return false;
    if (is_integer(dtype) && call.op == ReduceOp::avg) return false;
  }
  return engine_->offers(call);
}

void check_override(std::string_view text) { static_cast<void>(parse(text)); }

const std::string& schedule_override() {
  static const std::string& text = *new std::string(base::Environment::process().get("UNISONO_SCHEDULE").value_or(""));
  return text;
}

bool is_overridden(Operation operation) { return !overrides().empty() && overrides().contains(operation); }

const Algorithm& select(const Problem& problem, const Setting& setting) { return choose(problem, complete(problem, setting)); }

std::string_view build(const Problem& problem, const Setting& setting, Builder& to) {
  const Setting completed = complete(problem, setting);
  const Algorithm& algorithm = choose(problem, completed);
  algorithm.build(problem, setting_for(algorithm, completed), to);
  return algorithm.name;
}

Cost cost_of(const Problem& problem, const Setting& setting) {
  const Setting completed = complete(problem, setting);
  const Algorithm& algorithm = choose(problem, completed);
  return algorithm.cost != nullptr ? algorithm.cost(problem, setting_for(algorithm, completed)) : algorithms::cost_exchange(problem, completed);
}

}  // namespace unisono::schedule
