#include "simulate/crossing.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::simulate {
namespace {

constexpr std::size_t least_bytes = 8, step = 4;
constexpr double hopeless = 10;       // times as long as another one by the formula
constexpr double few_messages = 2e7;  // of one simulation: there are many

/// Returns the algorithms that can carry the call out.
std::vector<std::string_view> algorithms_of(Call call, const Parameters& parameters) {
  std::vector<std::string_view> names;
  for (const schedule::Algorithm& row : schedule::rows_of(call.operation)) {
    if (row.cost == nullptr) continue;
    call.algorithm = row.name;
    try {
      const ProgramWriter writer(call, parameters);
      names.push_back(writer.algorithm());
    } catch (const InvalidArgument&) {  // NOLINT(bugprone-empty-catch): it needs several ranks on a host, or an engine without channels
    }
  }
  return names;
}

double us_of(const Call& call, const SimulationOptions& options) {
  try {
    return simulate(call, options).us;
  } catch (const TooLarge&) {
    return Crossing::none;
  }
}

Crossing::Row row_of(Call call, const SimulationOptions& options, const std::vector<std::string_view>& algorithms) {
  Crossing::Row row{.bytes = call.bytes};
  std::vector<double> expected;
  for (const std::string_view name : algorithms) {
    call.algorithm = name;
    expected.push_back(ProgramWriter(call, options.parameters).expected_us());
  }
  const double least = *std::ranges::min_element(expected);
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    call.algorithm = algorithms[i];
    row.us.push_back(expected[i] <= hopeless * least ? us_of(call, options) : Crossing::none);
  }
  row.fastest = static_cast<std::size_t>(std::ranges::min_element(row.us) - row.us.begin());
  call.algorithm = {};
  const bool had_agreement = std::exchange(call.has_agreement, false);  // which would carry few bytes with it
  row.selected = ProgramWriter(call, options.parameters).algorithm();
  call.has_agreement = had_agreement;
  const auto selected = std::ranges::find(algorithms, row.selected);
  row.selected_us = selected == algorithms.end() ? Crossing::none : row.us[static_cast<std::size_t>(selected - algorithms.begin())];
  return row;
}

}  // namespace

std::vector<Crossing::Point> Crossing::points() const {
  std::vector<Point> found;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const Row& below = rows[i - 1];
    const Row& above = rows[i];
    if (below.fastest == above.fastest || below.us[below.fastest] == none || above.us[above.fastest] == none) continue;
    // The logarithm of the quotient of the two algorithms' times, at both sizes.
    const double before = std::log(below.us[above.fastest] / below.us[below.fastest]);
    const double after = std::log(above.us[below.fastest] / above.us[above.fastest]);
    const double part = std::isfinite(before) && std::isfinite(after) && before + after > 0 ? before / (before + after) : 0.5;
    const double bytes = static_cast<double>(below.bytes) * std::pow(static_cast<double>(above.bytes) / static_cast<double>(below.bytes), part);
    found.push_back({static_cast<std::size_t>(std::lround(bytes)), algorithms[below.fastest], algorithms[above.fastest]});
  }
  return found;
}

Crossing cross(Call call, const SimulationOptions& given, std::size_t most_bytes) {
  SimulationOptions options = given;
  options.most_messages = few_messages;
  Crossing crossing;
  crossing.algorithms = algorithms_of(call, options.parameters);
  if (crossing.algorithms.empty()) throw InvalidArgument("there is nothing to compare: no schedule carries this call out");
  for (std::size_t bytes = least_bytes; bytes <= std::max(most_bytes, least_bytes); bytes *= step) {
    call.bytes = bytes;
    crossing.rows.push_back(row_of(call, options, crossing.algorithms));
  }
  return crossing;
}

}  // namespace unisono::simulate
