#include "schedule/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
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

// Algorithms on two levels, where the engine offers the collective of all ranks as well. Measured on one host over loopback
// (docs/design/performance.md).
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

/// All that the cheapest of some algorithms depends on. It holds no addresses, since another engine may come to lie at the same one.
struct Question {
  std::uint64_t rows = 0;  ///< those that can be used, a bit each
  std::size_t count = 0, typical_block = 0;
  Operation operation = Operation::barrier;
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;
  bool is_custom = false, is_deterministic = false, has_channels = true;
  int size = 0, root = -1, sharing = 1, hosts = 0, rails = 0, host_of_root = -1;
  NetworkParameters network = {};
  friend bool operator==(const Question&, const Question&) = default;

  std::size_t hash() const {
    std::size_t all = count;
    for (const std::size_t part : {typical_block, static_cast<std::size_t>(operation), static_cast<std::size_t>(dtype),
                                   static_cast<std::size_t>(size), static_cast<std::size_t>(root + 1), static_cast<std::size_t>(rows)}) {
      all = (all ^ part) * 0x9E3779B97F4A7C15U;
    }
    return all >> 40;
  }
};

Question question_of(std::uint64_t rows, const Problem& problem, const Setting& setting) {
  Question question{.rows = rows,
                    .count = problem.count,
                    .typical_block = problem.typical_block,
                    .operation = problem.operation,
                    .dtype = problem.dtype,
                    .op = problem.op,
                    .is_custom = problem.is_custom,
                    .is_deterministic = problem.is_deterministic,
                    .has_channels = setting.engine.has_channels(),
                    .size = problem.size,
                    .root = problem.root,
                    .sharing = setting.sharing,
                    .network = setting.network};
  if (setting.topology != nullptr) {
    question.hosts = setting.topology->host_count();
    question.rails = setting.topology->rails;
    if (problem.root >= 0) question.host_of_root = setting.topology->host_of(problem.root);
  }
  return question;
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
  if (best == nullptr) throw Unsupported(fmt::format("no schedule carries out {}", to_string(problem.operation)));
  return *best;
}

/// The same from memory, where this thread has asked before: the formulas of all algorithms and their parts take some microseconds.
const Algorithm& remembered_cheapest(std::span<const Algorithm> rows, std::uint64_t usable, const Problem& problem, const Setting& setting) {
  if (std::has_single_bit(usable)) return rows[static_cast<std::size_t>(std::countr_zero(usable))];
  struct Answer {
    Question question;
    const Algorithm* algorithm = nullptr;
  };
  thread_local std::array<Answer, 32> answers;
  const Question question = question_of(usable, problem, setting);
  Answer& answer = answers[question.hash() % answers.size()];
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
