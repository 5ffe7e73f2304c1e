#include "schedule/selection.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/environment.h"
#include "unisono/error.h"

namespace unisono::schedule {
namespace {

using namespace algorithms;

constexpr std::size_t kib = 1024;

bool always(const Problem&, const Setting&) { return true; }

// The first algorithm of an operation that can be used, and whose limits fit, is taken. The limits were measured on one host over loopback
// (docs/performance.md).
constexpr Algorithm algorithm_table[] = {
    {Operation::all_reduce, "two_levels", can_two_level_all_reduce, build_two_level_all_reduce, 4 * kib},
    {Operation::all_reduce, "engine", can_engine, build_engine},
    {Operation::all_reduce, "sum_and_divide", can_sum_and_divide, build_sum_and_divide},
    {Operation::all_reduce, "everything", always, build_all_reduce_everything, 0, 4 * kib},
    {Operation::all_reduce, "shares", always, build_all_reduce_shares},
    {Operation::reduce, "engine", can_engine, build_engine},
    {Operation::reduce, "sum_and_divide", can_sum_and_divide, build_sum_and_divide},
    {Operation::reduce, "shares", always, build_reduce_shares},
    {Operation::reduce_scatter, "engine", can_engine, build_engine},
    {Operation::reduce_scatter, "sum_and_divide", can_sum_and_divide, build_sum_and_divide},
    {Operation::reduce_scatter, "blocks", always, build_reduce_scatter_blocks},
    {Operation::reduce_scatter_v, "engine", can_engine, build_engine},
    {Operation::reduce_scatter_v, "sum_and_divide", can_sum_and_divide, build_sum_and_divide},
    {Operation::reduce_scatter_v, "blocks", always, build_reduce_scatter_blocks},
    {Operation::scan, "engine", can_engine, build_engine},
    {Operation::scan, "shares", always, build_scan_shares},
    {Operation::exscan, "engine", can_engine, build_engine},
    {Operation::exscan, "shares", always, build_scan_shares},
    {Operation::broadcast, "two_levels", can_two_level_broadcast, build_two_level_broadcast, 4 * kib},
    {Operation::broadcast, "engine", can_engine, build_engine},
    {Operation::broadcast, "scatter_all_gather", can_exchange, build_broadcast_scatter_all_gather, 32 * kib, ~std::size_t{0}, 3},
    {Operation::broadcast, "exchange", can_exchange, build_exchange},
    {Operation::broadcast, "all_to_all_v", can_all_to_all_v, build_all_to_all_v},
    {Operation::all_gather, "engine", can_engine, build_engine},
    {Operation::all_gather, "exchange", can_exchange, build_exchange},
    {Operation::all_gather, "all_to_all_v", can_all_to_all_v, build_all_to_all_v},
    {Operation::gather, "engine", can_engine, build_engine},
    {Operation::gather, "exchange", can_exchange, build_exchange},
    {Operation::gather, "all_to_all_v", can_all_to_all_v, build_all_to_all_v},
    {Operation::scatter, "engine", can_engine, build_engine},
    {Operation::scatter, "exchange", can_exchange, build_exchange},
    {Operation::scatter, "all_to_all_v", can_all_to_all_v, build_all_to_all_v},
    {Operation::all_to_all, "engine", can_engine, build_engine},
    {Operation::all_to_all, "exchange", can_exchange, build_exchange},
    {Operation::all_to_all, "all_to_all_v", can_all_to_all_v, build_all_to_all_v},
    {Operation::all_gather_v, "engine", can_engine, build_engine},
    {Operation::all_gather_v, "exchange", can_exchange, build_exchange},
    {Operation::all_gather_v, "all_to_all_v", can_all_to_all_v, build_all_to_all_v},
    {Operation::gather_v, "engine", can_engine, build_engine},
    {Operation::gather_v, "exchange", can_exchange, build_exchange},
    {Operation::gather_v, "all_to_all_v", can_all_to_all_v, build_all_to_all_v},
    {Operation::scatter_v, "engine", can_engine, build_engine},
    {Operation::scatter_v, "exchange", can_exchange, build_exchange},
    {Operation::scatter_v, "all_to_all_v", can_all_to_all_v, build_all_to_all_v},
    {Operation::all_to_all_v, "engine", can_engine, build_engine},
    {Operation::all_to_all_v, "exchange", can_exchange, build_exchange},
};

const Algorithm* find(Operation operation, std::string_view name) {
  const auto found = std::ranges::find_if(algorithm_table, [&](const Algorithm& row) { return row.operation == operation && row.name == name; });
  return found == std::end(algorithm_table) ? nullptr : &*found;
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
      for (const Algorithm& each : algorithm_table) {
        if (each.operation == row->operation) names.push_back(each.name);
      }
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

bool is_preferred(const Algorithm& algorithm, const Problem& problem) {
  return problem.bytes() >= algorithm.at_least_bytes && problem.bytes() <= algorithm.at_most_bytes && problem.size >= algorithm.at_least_ranks;
}

std::string limits_of(const Algorithm& row) {
  std::string text;
  if (row.at_least_bytes > 0) text += fmt::format(" from {} KiB", row.at_least_bytes / kib);
  if (row.at_most_bytes != ~std::size_t{0}) text += fmt::format(" to {} KiB", row.at_most_bytes / kib);
  if (row.at_least_ranks > 1) text += fmt::format(" from {} ranks", row.at_least_ranks);
  return text;
}

}  // namespace

std::span<const Algorithm> table() { return algorithm_table; }

std::vector<std::pair<std::string, std::string>> describe_table() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const OperationTraits& operation : operation_table) {
    std::vector<std::string> names;
    for (const Algorithm& row : algorithm_table) {
      if (row.operation == operation.operation) names.push_back(std::string(row.name) + limits_of(row));
    }
    if (!names.empty()) rows.emplace_back(operation.name, fmt::format("{}", fmt::join(names, "; ")));
  }
  return rows;
}

void check_override(std::string_view text) { static_cast<void>(parse(text)); }

const std::string& schedule_override() {
  static const std::string& text = *new std::string(base::Environment::process().get("UNISONO_SCHEDULE").value_or(""));
  return text;
}

bool is_overridden(Operation operation) { return !overrides().empty() && overrides().contains(operation); }

std::string_view build(const Problem& problem, const Setting& setting, Builder& to) {
  const Algorithm* last = nullptr;
  if (const auto wanted = overrides().find(problem.operation); wanted != overrides().end() && wanted->second->can(problem, setting)) {
    wanted->second->build(problem, setting, to);
    return wanted->second->name;
  }
  for (const Algorithm& row : algorithm_table) {
    if (row.operation != problem.operation || !row.can(problem, setting)) continue;
    last = &row;
    if (is_preferred(row, problem)) break;
  }
  if (last == nullptr) throw Unsupported(fmt::format("no schedule carries out {}", to_string(problem.operation)));
  last->build(problem, setting, to);
  return last->name;
}

}  // namespace unisono::schedule
