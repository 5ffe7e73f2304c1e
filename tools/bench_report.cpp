#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <tuple>

#include "bench_options.h"

namespace unisono::tools {

namespace {

constexpr double kMostStolen = 0.01;

/// The copy kernels all stand for the one roofline; in each round the fastest counts.
std::string impl_of(const std::string& candidate) { return candidate.starts_with("roofline") ? "roofline" : candidate; }

/// Ours first, then the limit, then the others by name.
int column_of(const std::string& candidate) { return candidate.starts_with("unisono") ? 0 : candidate.starts_with("roofline") ? 1 : 2; }

struct Series {
  std::vector<double> medians;  // a round each, in the order of the rounds
  std::vector<double> samples;  // all of them
};

double gigabytes_per_second(std::size_t bytes, double us) { return us > 0 ? static_cast<double>(bytes) / us / 1000 : 0; }

std::string microseconds(double us) {
  return us < 10 ? fmt::format("{:.3f}", us) : us < 1000 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us);
}

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
    if (round.stolen <= kMostStolen) undisturbed.push_back(&round);
  }
  return undisturbed.size() * 2 >= all.size() ? undisturbed : all;
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
    using Key = std::tuple<std::size_t, std::size_t, int, std::string>;  // place of the operation on the command line, bytes, implementation
    std::map<Key, Series> series;
    std::vector<bench::Operation> order;
    for (const Round* round : kept(set)) {
      std::map<Key, std::pair<double, std::vector<double>>> best;
      for (const auto& block : round->blocks) {
        const bench::Operation operation = *bench::parse_operation(block.at("op").get<std::string>());
        auto place = std::ranges::find(order, operation);
        if (place == order.end()) place = order.insert(place, operation);
        const Key key{static_cast<std::size_t>(place - order.begin()), block.at("bytes"), column_of(block.at("impl")), impl_of(block.at("impl"))};
        std::vector<double> samples = block.at("samples");
        const double median = bench::median(samples);
        const auto [entry, fresh] = best.try_emplace(key, median, samples);
        if (!fresh && median < entry->second.first) entry->second = {median, std::move(samples)};
      }
      for (auto& [key, block] : best) {
        Series& one = series[key];
        one.medians.push_back(block.first);
        one.samples.insert(one.samples.end(), block.second.begin(), block.second.end());
      }
    }
    for (const auto& [key, one] : series) {
      const auto& [place, bytes, column, impl] = key;
      BenchRow row{.set = set, .operation = order[place], .impl = impl, .bytes = bytes};
      row.median_us = bench::median(one.medians) / 1000;
      row.p99_us = bench::quantile(one.samples, 0.99) / 1000;
      row.min_us = *std::ranges::min_element(one.samples) / 1000;
      row.spread_us = (bench::quantile(one.medians, 0.75) - bench::quantile(one.medians, 0.25)) / 1000;
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
                            {"busbw_gbs", algbw * (row.impl == "roofline" ? 1 : bench::bus_factor(row.operation, facts.ranks))},
                            {"verified", true},  // a wrong result would have ended the run
                            {"set", row.set},
                            {"iqr_us", row.spread_us}};
    if (row.ratio) entry["ratio"] = {{"median", row.ratio->middle}, {"low", row.ratio->low}, {"high", row.ratio->high}};
    list.push_back(std::move(entry));
  }
  return list;
}

void print_table(std::ostream& out, const std::vector<BenchRow>& rows, const BenchFacts& facts, const std::string& set) {
  std::optional<bench::Operation> last;
  for (const BenchRow& row : rows) {
    if (row.set != set) continue;
    if (last != row.operation) {
      last = row.operation;
      out << fmt::format("\n{}\n{:>10}  {:<18}{:>12}{:>12}{:>12}{:>11}{:>11}  {}\n", bench::to_string(row.operation), "size", "", "median us",
                         "p99 us", "min us", "algbw GB/s", "busbw GB/s", "time by unisono's [95 %]");
    }
    const double algbw = gigabytes_per_second(row.bytes, row.median_us);
    const double busbw = algbw * (row.impl == "roofline" ? 1 : bench::bus_factor(row.operation, facts.ranks));
    std::string ratio;
    if (row.ratio) ratio = fmt::format("{:.2f} [{:.2f} … {:.2f}]", row.ratio->middle, row.ratio->low, row.ratio->high);
    out << fmt::format("{:>10}  {:<18}{:>12}{:>12}{:>12}{:>11.2f}{:>11.2f}  {}\n", row.bytes == 0 ? "-" : format_bytes(row.bytes), row.impl,
                       microseconds(row.median_us), microseconds(row.p99_us), microseconds(row.min_us), algbw, busbw, ratio);
  }
}

}  // namespace unisono::tools
