// The table and the parameters of the network as text: which algorithm is chosen for how many bytes, by the model of the network.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/environment.h"
#include "schedule/carried_call.h"
#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::schedule {
namespace {

constexpr std::size_t element = sizeof(float);

/// Returns how a call is carried out whose vector, or whose block of a rank, has so many elements: the name of the algorithm, or that its elements
/// need none.
std::string_view chosen(const Setting& setting, Operation operation, std::size_t count) {
  Problem problem;
  problem.operation = operation;
  problem.dtype = DType::float32;
  problem.rank = setting.topology->rank;
  problem.size = setting.topology->size();
  problem.root = has_root(operation) ? 0 : -1;
  problem.count = has_counts(operation) ? count * static_cast<std::size_t>(problem.size) : count;
  const CollectiveCall call = call_without_memory(problem);
  if (const auto pattern = pattern_with_agreement(call, problem, setting)) {
    if (*pattern == coordination::Carried::Pattern::to_all) return "with the comparison of the calls";
    return is_by_shares(call, *pattern) ? "with the comparison by shares" : "with the comparison directly";
  }
  return select(problem, setting).name;
}

std::string bytes_as_text(std::size_t bytes) {
  constexpr std::size_t kib = 1024, mib = kib * kib;
  const auto as = [&](std::size_t unit) { return static_cast<double>(bytes) / static_cast<double>(unit); };
  if (bytes < kib) return fmt::format("{} B", bytes);
  return bytes < mib ? fmt::format("{:.3g} KiB", as(kib)) : fmt::format("{:.3g} MiB", as(mib));
}

/// Returns the algorithms in the order of the sizes for which they are chosen, and where each begins.
std::vector<std::pair<std::size_t, std::string_view>> choices(const Setting& setting, Operation operation) {
  const auto chosen_for = [&](std::size_t count) { return chosen(setting, operation, count); };
  constexpr std::size_t most = (std::size_t{1} << 30) / element;
  std::vector<std::pair<std::size_t, std::string_view>> found{{1, chosen_for(1)}};
  for (std::size_t below = 1, count = 2; count <= most; below = count, count *= 2) {
    const std::string_view name = chosen_for(count);
    if (name == found.back().second) continue;
    std::size_t first = count;  // the least between the two that has this algorithm
    for (std::size_t step = (count - below) / 2; step > 0; step /= 2) {
      if (chosen_for(first - step) == name) first -= step;
    }
    found.emplace_back(first, name);
  }
  return found;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> describe_table(const Setting& setting) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const OperationTraits& operation : operation_table) {
    const std::span<const Algorithm> algorithms = rows_of(operation.operation);
    if (algorithms.empty()) continue;
    std::vector<std::string> taken;
    std::vector<std::string_view> others;
    const auto chosen = choices(setting, operation.operation);
    for (const auto& [first, name] : chosen) {
      taken.push_back(first == 1 ? std::string(name) : fmt::format("{} from {}", name, bytes_as_text(first * element)));
    }
    for (const Algorithm& row : algorithms) {
      if (std::ranges::find(chosen, row.name, &std::pair<std::size_t, std::string_view>::second) == chosen.end()) others.push_back(row.name);
    }
    rows.emplace_back(operation.name, fmt::format("{}; also {}", fmt::join(taken, ", "), fmt::join(others, ", ")));
  }
  return rows;
}

std::vector<std::pair<std::string, std::string>> describe_table(int ranks, int hosts, const NetworkParameters& network) {
  std::vector<int> numbers;
  for (int r = 0; r < ranks; ++r) numbers.push_back(static_cast<int>(static_cast<std::int64_t>(r) * hosts / ranks));
  const coordination::GroupTopology topology(0, std::move(numbers));
  return describe_table({.engine = Abilities(nullptr), .topology = &topology, .network = network});
}

std::string text_of(const NetworkParameters& network) {
  const LevelParameters& level = network.network;
  std::string text = fmt::format("{:.3g},{:.3g},{:.3g}", level.latency_us, level.gap_us, level.ns_per_byte);
  return network.is_crowded() ? text + fmt::format(",{:.3g}", network.crowding) : text;
}

std::optional<NetworkParameters> parse_network(std::string_view text) {
  if (text.empty()) return std::nullopt;
  NetworkParameters parameters;
  if (text == "assumed") return parameters;
  std::vector<double> figures;
  const char* const end = text.data() + text.size();
  bool is_right = true;
  for (const char* at = text.data(); is_right; ++at) {
    const auto [next, error] = std::from_chars(at, end, figures.emplace_back());
    is_right = error == std::errc() && std::isfinite(figures.back()) && figures.back() >= 0 && (next == end || *next == ',');
    if (next == end) break;
    at = next;
  }
  if (!is_right || figures.size() < 3 || figures.size() > 4 || (figures.size() == 4 && figures[3] < 1)) {
    throw InvalidArgument(fmt::format("UNISONO_NETWORK: \"{}\" is not LATENCY,GAP,BYTE or LATENCY,GAP,BYTE,RANKS", text),
                          {.hint = "20,3,0.35: 20 µs latency, 3 µs for each further message of a round, 0.35 ns for each byte; or \"assumed\""});
  }
  parameters.network = {.latency_us = figures[0], .gap_us = figures[1], .ns_per_byte = figures[2]};
  if (figures.size() == 4) parameters.crowding = figures[3];
  return parameters;
}

const std::string& network_override() {
  static const std::string& text = *new std::string(base::Environment::process().get("UNISONO_NETWORK").value_or(""));
  return text;
}

std::string describe(const NetworkParameters& network) {
  return fmt::format("latency {:.3g} µs, {:.3g} µs for each further message, {:.3g} ns for each byte{}", network.network.latency_us,
                     network.network.gap_us, network.network.ns_per_byte,
                     network.is_crowded() ? fmt::format("; {:.3g} ranks for each processor", network.crowding) : "");
}

std::string describe_assumed(const NetworkParameters& network) {
  return fmt::format(
      "in shared memory latency {} µs and {} ns for each byte; {} ns for each byte that is combined, and {} ns for each that is copied",
      network.host.latency_us, network.host.ns_per_byte, network.reduce_ns_per_byte, network.copy_ns_per_byte);
}

}  // namespace unisono::schedule
