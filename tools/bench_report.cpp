#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <tuple>

#include "bench_options.h"
#include "sizes.h"
#include "text.h"

namespace unisono::tools {

namespace {

constexpr double most_stolen = 0.01;

/// All copy kernels are reported as one roofline; in each round the fastest counts.
std::string impl_of(const std::string& candidate) { return candidate.starts_with("roofline") ? "roofline" : candidate; }

/// Sorts the columns: ours first, then the roofline, then the others by name.
int column_of(const std::string& candidate) { return candidate.starts_with("unisono") ? 0 : candidate.starts_with("roofline") ? 1 : 2; }

/// One block of calls.
struct Measured {
  double median;
  std::vector<double> samples;
  double voluntary, involuntary, processor_ns;
};

struct Series {
  std::vector<double> medians;  // one for each round, in the order of the rounds
  std::vector<double> samples;  // all of them
  std::vector<double> voluntary, involuntary, processor_ns;

  void add(const Measured& block) {
    medians.push_back(block.median);
    samples.insert(samples.end(), block.samples.begin(), block.samples.end());
    voluntary.push_back(block.voluntary);
    involuntary.push_back(block.involuntary);
    processor_ns.push_back(block.processor_ns);
  }
};

constexpr std::string_view roofline = "roofline";

double gigabytes_per_second(std::size_t bytes, double us) { return us > 0 ? static_cast<double>(bytes) / us / 1000 : 0; }

std::string microseconds(double us) {
  return us < 10 ? fmt::format("{:.3f}", us) : us < 1000 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us);
}

std::string three_digits(double value) { return value < 10 ? fmt::format("{:.2f}", value) : fmt::format("{:.{}f}", value, value < 100 ? 1 : 0); }

std::string size_text(const BenchRow& row) { return row.bytes == 0 ? "-" : format_bytes(row.bytes); }

/// Returns a name short enough for the table.
std::string_view shown_name(const BenchRow& row) { return row.impl == "unisono-unchecked" ? std::string_view("unchecked") : row.impl; }

/// Returns "2.00 [1.90–2.10]": the median of the rounds and its 95 % interval.
std::string ratio_text(const BenchRow& row) {
  if (!row.ratio) return {};
  return fmt::format("{} [{}–{}]", three_digits(row.ratio->middle), three_digits(row.ratio->low), three_digits(row.ratio->high));
}

double bus_factor_of(const BenchRow& row, const BenchFacts& facts) {
  return row.impl == roofline ? 1 : bench::bus_factor(row.operation, facts.ranks);
}

/// A copy reads and writes its bytes, so twice as many go through the cache.
bool is_bound(const BenchRow& row, std::size_t cache_bytes) { return bench::moves_as_much_as_a_copy(row.operation) && row.bytes > cache_bytes / 2; }

}  // namespace

void BenchResults::add(const std::string& set, const nlohmann::json& event, double stolen) {
  if (!rounds_.contains(set)) sets_.push_back(set);
  rounds_[set].push_back({.stolen = stolen, .barrier_ns = event.at("barrier_ns"), .blocks = event.at("blocks")});
}

std::vector<const BenchResults::Round*> BenchResults::kept(const std::string& set) const {
  std::vector<const Round*> all;
  std::vector<const Round*> undisturbed;
  const auto found = rounds_.find(set);
  if (found == rounds_.end()) return all;
  for (const Round& round : found->second) {
    all.push_back(&round);
    if (round.stolen <= most_stolen) undisturbed.push_back(&round);
  }
  return undisturbed.size() * 2 >= all.size() ? undisturbed : all;
}

std::size_t BenchResults::rounds(const std::string& set) const {
  const auto found = rounds_.find(set);
  return found == rounds_.end() ? 0 : found->second.size();
}

std::size_t BenchResults::dropped(const std::string& set) const { return rounds_.at(set).size() - kept(set).size(); }

std::optional<double> BenchResults::barrier_ns(const std::string& set) const {
  std::vector<double> values;
  for (const Round* round : kept(set)) values.push_back(round->barrier_ns);
  return values.empty() ? std::nullopt : std::optional(bench::median(std::move(values)));
}

std::vector<BenchRow> BenchResults::rows() const {
  std::vector<BenchRow> rows;
  for (const std::string& set : sets_) {
    using Key = std::tuple<std::size_t, std::size_t, int, std::string>;  // position of the operation on the command line, bytes, implementation
    std::map<Key, Series> series;
    std::vector<bench::Operation> order;
    for (const Round* round : kept(set)) {
      std::map<Key, Measured> best;
      for (const auto& block : round->blocks) {
        const bench::Operation operation = *bench::parse_operation(block.at("op").get<std::string>());
        auto place = std::ranges::find(order, operation);
        if (place == order.end()) place = order.insert(place, operation);
        const Key key{static_cast<std::size_t>(place - order.begin()), block.at("bytes"), column_of(block.at("impl")), impl_of(block.at("impl"))};
        Measured measured{.median = 0,
                          .samples = block.at("samples"),
                          .voluntary = block.at("voluntary"),
                          .involuntary = block.at("involuntary"),
                          .processor_ns = block.at("processor_ns")};
        measured.median = bench::median(measured.samples);
        const auto found = best.find(key);
        if (found == best.end() || measured.median < found->second.median) best.insert_or_assign(key, std::move(measured));
      }
      for (const auto& [key, block] : best) series[key].add(block);
    }
    for (const auto& [key, one] : series) {
      const auto& [place, bytes, column, impl] = key;
      BenchRow row{.set = set, .operation = order[place], .impl = impl, .bytes = bytes};
      row.median_us = bench::median(one.medians) / 1000;
      row.p99_us = bench::quantile(one.samples, 0.99) / 1000;
      row.min_us = *std::ranges::min_element(one.samples) / 1000;
      row.spread_us = (bench::quantile(one.medians, 0.75) - bench::quantile(one.medians, 0.25)) / 1000;
      row.voluntary = bench::median(one.voluntary);
      row.involuntary = bench::median(one.involuntary);
      row.processor_us = bench::median(one.processor_ns) / 1000;
      const auto ours = series.find({place, bytes, column_of("unisono"), "unisono"});
      if (impl != "unisono" && ours != series.end() && ours->second.medians.size() == one.medians.size()) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < one.medians.size(); ++i) ratios.push_back(one.medians[i] / std::max(ours->second.medians[i], 1e-3));
        row.ratio = bench::median_interval(ratios);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

nlohmann::json to_json(const std::vector<BenchRow>& rows, const BenchFacts& facts) {
  nlohmann::json list = nlohmann::json::array();
  for (const BenchRow& row : rows) {
    const bool ours = row.impl.starts_with("unisono");
    const double algbw = gigabytes_per_second(row.bytes, row.median_us);
    nlohmann::json entry = {{"op", bench::to_string(row.operation)},
                            {"impl", row.impl},
                            {"backend", ours ? facts.backends.at(row.set) : row.impl},
                            {"ranks", facts.ranks},
                            {"hosts", facts.hosts},
                            {"bytes", row.bytes},
                            {"dtype", facts.dtype},
                            {"buffers", facts.buffers},
                            {"data", facts.data},
                            {"median_us", row.median_us},
                            {"p99_us", row.p99_us},
                            {"min_us", row.min_us},
                            {"algbw_gbs", algbw},
                            {"busbw_gbs", algbw * bus_factor_of(row, facts)},
                            {"verified", true},  // a wrong result would have ended the run
                            {"set", row.set},
                            {"switches", {{"voluntary", row.voluntary}, {"involuntary", row.involuntary}}},
                            {"processor_us", row.processor_us},
                            {"iqr_us", row.spread_us}};
    if (row.ratio) entry["ratio"] = {{"median", row.ratio->middle}, {"low", row.ratio->low}, {"high", row.ratio->high}};
    list.push_back(std::move(entry));
  }
  return list;
}

void print_table(std::ostream& out, const std::vector<BenchRow>& rows, const BenchFacts& facts, const std::string& set, std::size_t cache_bytes) {
  std::vector<const BenchRow*> shown;
  std::size_t size_width = 8, name_width = 8;
  bool has_bound = false;
  for (const BenchRow& row : rows) {
    if (row.set != set || (row.impl == roofline && !is_bound(row, cache_bytes))) continue;
    has_bound = has_bound || row.impl == roofline;
    shown.push_back(&row);
    size_width = std::max(size_width, size_text(row).size());
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
      line("size", "", "median us", "p99 us", "GB/s", "bus GB/s", "× unisono");
      last = nullptr;
    }
    const double rate = gigabytes_per_second(row->bytes, row->median_us);
    const bool moves = row->bytes != 0;
    line(last != nullptr && last->bytes == row->bytes ? "" : size_text(*row), shown_name(*row), microseconds(row->median_us),
         microseconds(row->p99_us), moves ? three_digits(rate) : "-", moves ? three_digits(rate * bus_factor_of(*row, facts)) : "-",
         ratio_text(*row));
    last = row;
  }
  if (has_bound)
    out << "\n"
        << wrap("roofline: each rank copies as many bytes, with the fastest copy there is. Shown from where memory sets the time.", 10) << "\n";
}

std::string summary_of(const std::vector<BenchRow>& rows, const BenchFacts& facts) {
  std::size_t results = 0;
  const BenchRow* quickest = nullptr;
  const BenchRow* widest = nullptr;
  const auto rate = [&](const BenchRow& row) { return gigabytes_per_second(row.bytes, row.median_us) * bus_factor_of(row, facts); };
  std::map<std::string, std::vector<double>> ratios;
  for (const BenchRow& row : rows) {
    if (row.impl == roofline) continue;
    ++results;
    if (row.ratio) ratios[row.impl].push_back(row.ratio->middle);
    if (row.impl != "unisono") continue;
    if (quickest == nullptr || row.median_us < quickest->median_us) quickest = &row;
    if (row.bytes != 0 && (widest == nullptr || rate(row) > rate(*widest))) widest = &row;
  }
  std::string text = fmt::format("summary: {} result{} verified", results, results == 1 ? "" : "s");
  const auto place = [](const BenchRow& row) {
    return row.bytes == 0 ? std::string(bench::to_string(row.operation)) : fmt::format("{} of {}", bench::to_string(row.operation), size_text(row));
  };
  if (quickest != nullptr) text += fmt::format("; unisono takes {} us at least ({})", microseconds(quickest->median_us), place(*quickest));
  if (widest != nullptr) text += fmt::format(", and reaches {} bus GB/s ({})", three_digits(rate(*widest)), place(*widest));
  for (const auto& [impl, all] : ratios) {
    double logarithms = 0;
    for (const double ratio : all) logarithms += std::log(std::max(ratio, 1e-9));
    const auto [low, high] = std::ranges::minmax_element(all);
    text += fmt::format("; {} takes {} × unisono's time ({} to {})", impl, three_digits(std::exp(logarithms / static_cast<double>(all.size()))),
                        three_digits(*low), three_digits(*high));
  }
  return wrap(text, 9);
}

}  // namespace unisono::tools
