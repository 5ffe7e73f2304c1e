#include "bench/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <set>
#include <tuple>

#include "common/text.h"

namespace unisono::tools {
namespace {

/// Returns a name short enough for the table.
std::string_view shown_name(const BenchRow& row) {
  if (row.impl == "unisono-unchecked") return "unchecked";
  if (row.impl == "unisono-unrecorded") return "unrecorded";
  return row.impl;
}

bool counts_messages(const BenchRow& row) { return row.operation == bench::Operation::message_rate && row.impl != roofline_impl; }

/// A copy reads and writes its bytes, so twice as many go through the cache.
bool is_bound(const BenchRow& row, std::size_t cache_bytes) { return bench::moves_as_much_as_a_copy(row.operation) && row.bytes > cache_bytes / 2; }

constexpr std::size_t most_named = 5;  // cells in a message

/// Returns a line that belongs to the one above it.
std::string indented(const std::string& text) { return "\n  " + wrap(text, 4, 2); }

double geometric_mean(const std::vector<double>& values) {
  double logarithms = 0;
  for (const double value : values) logarithms += std::log(std::max(value, 1e-9));
  return std::exp(logarithms / static_cast<double>(values.size()));
}

std::string range_text(const std::vector<double>& values) {
  const auto [low, high] = std::ranges::minmax_element(values);
  return fmt::format("{} to {}", three_digits(*low), three_digits(*high));
}

/// Names cells; with their conditions where these are not the same everywhere.
class CellNames {
 public:
  explicit CellNames(const std::vector<BenchCell>& cells) {
    for (const BenchCell& cell : cells) several_ = several_ || cell.conditions != cells.front().conditions;
  }
  std::string of(const BenchCell& cell) const {
    return several_ ? fmt::format("{} ({})", cell_text(cell.operation, cell.bytes), text_of(cell.conditions)) : cell_text(cell.operation, cell.bytes);
  }
  /// Returns "all_to_all of 1 MiB 0.52 [0.50–0.55] beside openmpi".
  std::string with_ratio(const BenchCell& cell) const {
    return fmt::format("{} {} beside {}", of(cell), ratio_text(*cell.peers.front()->ratio), cell.peers.front()->impl);
  }

 private:
  bool several_ = false;
};

std::vector<const BenchCell*> worst_first(const std::vector<BenchCell>& cells) {
  std::vector<const BenchCell*> order;
  for (const BenchCell& cell : cells)
    if (cell.ratio()) order.push_back(&cell);
  std::ranges::stable_sort(order, {}, [](const BenchCell* cell) { return *cell->ratio(); });
  return order;
}

/// "slower in 3 of 120 cells; geometric mean 2.70", for ratios to unisono's time.
std::string standing(const std::vector<double>& ratios, std::string_view than) {
  const auto slower = static_cast<std::size_t>(std::ranges::count_if(ratios, [](double ratio) { return ratio < 1; }));
  return fmt::format("slower {} in {} of {}; geometric mean {}", than, slower, counted(ratios.size(), "cell"), three_digits(geometric_mean(ratios)));
}

/// A line for each library: its own cells, mean and range.
std::string by_library(const std::vector<BenchCell>& cells) {
  std::map<std::string, std::vector<double>> ratios;
  for (const BenchCell& cell : cells)
    for (const BenchRow* peer : cell.peers)
      ratios[peer->version.empty() ? peer->impl : fmt::format("{} ({})", peer->impl, peer->version)].push_back(peer->ratio->middle);
  std::string text;
  for (const auto& [library, all] : ratios) text += indented(fmt::format("{}: {} ({})", library, standing(all, "than it"), range_text(all)));
  return text;
}

/// The cells without another library; an operation that has none at all is named once.
std::string without_peer(const std::vector<BenchCell>& cells, const CellNames& names) {
  std::set<bench::Operation> with;
  std::vector<std::string> named;
  std::size_t count = 0;
  for (const BenchCell& cell : cells)
    if (cell.ratio()) with.insert(cell.operation);
  for (const BenchCell& cell : cells) {
    if (cell.ratio()) continue;
    ++count;
    const std::string name = with.contains(cell.operation) ? names.of(cell) : std::string(bench::to_string(cell.operation));
    if (std::ranges::find(named, name) == named.end()) named.push_back(name);
  }
  if (count == 0) return {};
  return indented(fmt::format("no peer was measured in {} of {}: {}", count, counted(cells.size(), "cell"), fmt::join(named, ", ")));
}

std::string beside_peers(const std::vector<BenchCell>& cells) {
  const std::vector<const BenchCell*> worst = worst_first(cells);
  if (worst.empty()) return "no peer was measured; --peers names other libraries";
  const CellNames names(cells);
  std::vector<double> ratios;
  for (const BenchCell* cell : worst) ratios.push_back(*cell->ratio());
  std::string text = wrap(standing(ratios, "than a peer") + " (against the fastest peer of each cell)", 2) + by_library(cells);
  // The worst one is always named, others where they are behind.
  std::string list = names.with_ratio(*worst.front());
  for (std::size_t i = 1; i < worst.size() && *worst[i]->ratio() < 1; ++i) list += ", " + names.with_ratio(*worst[i]);
  return text + indented("worst: " + list) + without_peer(cells, names);
}

/// Returns the conditions of the cells, and where the cores of their ranks were.
std::string heading_of(const std::vector<BenchCell>& cells) {
  std::set<std::string> places;
  for (const BenchCell& cell : cells)
    for (const BenchRow* peer : cell.peers) places.insert(peer->cores);
  places.erase("");
  const std::string cores = places.empty() ? std::string() : fmt::format(", {} cores", fmt::join(places, " and "));
  return text_of(cells.front().conditions) + cores;
}

/// The first line: how much was measured, unisono's least time and greatest bandwidth, and what its parts take.
std::string own_figures(const std::vector<BenchRow>& rows) {
  std::size_t results = 0;
  const BenchRow* quickest = nullptr;
  const BenchRow* widest = nullptr;
  const auto rate = [&](const BenchRow& row) { return gigabytes_per_second(row) * bus_factor_of(row); };
  std::map<std::string, std::vector<double>> ratios;
  for (const BenchRow& row : rows) {
    if (row.impl == roofline_impl) continue;
    ++results;
    if (row.ratio && !is_of_peer(row)) ratios[row.impl].push_back(row.ratio->middle);
    if (row.impl != "unisono") continue;
    if (quickest == nullptr || row.time_us.middle < quickest->time_us.middle) quickest = &row;
    if (row.bytes != 0 && (widest == nullptr || rate(row) > rate(*widest))) widest = &row;
  }
  std::string text = fmt::format("summary: {} verified", counted(results, "result"));
  const auto place = [](const BenchRow& row) { return cell_text(row.operation, row.bytes); };
  if (quickest != nullptr) text += fmt::format("; unisono takes {} us at least ({})", microseconds(quickest->time_us.middle), place(*quickest));
  if (widest != nullptr) text += fmt::format(", and reaches {} bus GB/s ({})", three_digits(rate(*widest)), place(*widest));
  for (const auto& [impl, all] : ratios) {
    text += fmt::format("; {} takes {} × unisono's time ({})", impl, three_digits(geometric_mean(all)), range_text(all));
  }
  return wrap(text, 9);
}

}  // namespace

std::vector<std::vector<BenchRow>> groups_of(const std::vector<BenchRow>& rows) {
  return grouped(rows, [](const BenchRow& row) { return std::tie(row.set, row.conditions); });
}

void print_table(std::ostream& out, const std::vector<BenchRow>& rows, std::size_t cache_bytes) {
  std::vector<const BenchRow*> shown;
  std::size_t size_width = 8, name_width = 8;
  bool has_bound = false;
  for (const BenchRow& row : rows) {
    if (row.impl == roofline_impl && !is_bound(row, cache_bytes)) continue;
    has_bound = has_bound || row.impl == roofline_impl;
    shown.push_back(&row);
    size_width = std::max(size_width, size_text(row.bytes).size());
    name_width = std::max(name_width, shown_name(row).size());
  }
  const auto line = [&](std::string_view size, std::string_view name, std::string_view median, std::string_view p99, std::string_view rate,
                        std::string_view bus, std::string_view ratio) {
    std::string text = pad_left(size, size_width) + "  " + pad_right(name, name_width) + pad_left(median, 10) + pad_left(p99, 9) + pad_left(rate, 8) +
                       pad_left(bus, 10) + "  " + std::string(ratio);
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << "\n";
  };
  const BenchRow* last = nullptr;
  for (const BenchRow* row : shown) {
    if (last == nullptr || last->operation != row->operation) {
      out << "\n" << bench::to_string(row->operation) << "\n";
      line("size", "", "median us", "p99 us", "GB/s", counts_messages(*row) ? "M msg/s" : "bus GB/s", "× unisono");
      last = nullptr;
    }
    const double rate = gigabytes_per_second(*row);
    const bool moves = row->bytes != 0;
    const double last_rate = counts_messages(*row) ? messages_per_second(*row) / 1e6 : rate * bus_factor_of(*row);
    line(last != nullptr && last->bytes == row->bytes ? "" : size_text(row->bytes), shown_name(*row), microseconds(row->time_us.middle),
         microseconds(row->p99_us), moves ? three_digits(rate) : "-", moves ? three_digits(last_rate) : "-",
         row->ratio ? ratio_text(*row->ratio) : std::string());
    last = row;
  }
  if (!shown.empty() && shown.front()->conditions.buffers == device_buffers)
    out << "\n"
        << wrap(
               "cuda buffers: memory of devices. Calls are enqueued in rows; the time of a call is that of a row, to the end of the device's work, "
               "divided by its calls.",
               2)
        << "\n";
  if (has_bound)
    out << "\n"
        << wrap(
               "roofline: each rank copies the same number of bytes, with the fastest copy there is. It is shown from the size on at which memory "
               "sets the time.",
               10)
        << "\n";
}

std::vector<BenchCell> cells_of(const std::vector<BenchRow>& rows) {
  std::vector<BenchCell> cells;
  std::map<std::tuple<BenchConditions, bench::Operation, std::size_t>, std::size_t> places;
  for (const BenchRow& row : rows) {
    if (row.impl != "unisono") continue;
    if (places.try_emplace({row.conditions, row.operation, row.bytes}, cells.size()).second)
      cells.push_back({.conditions = row.conditions, .operation = row.operation, .bytes = row.bytes});
  }
  for (const BenchRow& row : rows) {
    if (!is_of_peer(row) || !row.ratio) continue;
    const auto place = places.find({row.conditions, row.operation, row.bytes});
    if (place != places.end()) cells[place->second].peers.push_back(&row);
  }
  for (BenchCell& cell : cells) std::ranges::stable_sort(cell.peers, {}, [](const BenchRow* row) { return row->ratio->middle; });
  return cells;
}

std::string summary_of(const std::vector<BenchRow>& rows) {
  const auto groups = grouped(cells_of(rows), [](const BenchCell& cell) { return cell.conditions; });
  std::string text = own_figures(rows);
  for (const std::vector<BenchCell>& cells : groups) {
    if (groups.size() > 1) text += "\n\n" + wrap(heading_of(cells), 2);
    text += "\n" + beside_peers(cells);
  }
  return groups.empty() ? text + "\n" + beside_peers({}) : text;
}

std::string below_limit(const std::vector<BenchCell>& cells, double limit) {
  const std::vector<const BenchCell*> worst = worst_first(cells);
  if (worst.empty()) return "--fail-below found no cell in which a peer was measured";
  const auto below = static_cast<std::size_t>(std::ranges::count_if(worst, [&](const BenchCell* cell) { return *cell->ratio() < limit; }));
  if (below == 0) return {};
  const CellNames names(cells);
  std::string list;
  for (std::size_t i = 0; i < std::min(below, most_named); ++i) list += (i == 0 ? "" : ", ") + names.with_ratio(*worst[i]);
  if (below > most_named) list += fmt::format(", and {} more", below - most_named);
  return fmt::format("{} of {} below --fail-below {}: {}", below, counted(worst.size(), "cell"), limit, list);
}

}  // namespace unisono::tools
