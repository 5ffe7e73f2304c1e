#include "bench/results.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "harness/statistics.h"

namespace unisono::tools {

namespace {

constexpr double most_stolen = 0.01;

/// All copy kernels are reported as one roofline; in each round the fastest counts.
std::string impl_of(const std::string& candidate) { return candidate.starts_with(roofline_impl) ? std::string(roofline_impl) : candidate; }

/// Sorts the implementations: ours first, then the roofline, then the others by name.
int column_of(const std::string& candidate) { return candidate.starts_with("unisono") ? 0 : candidate.starts_with(roofline_impl) ? 1 : 2; }

/// One block of calls.
struct Measured {
  double median;
  std::vector<double> samples;
  double voluntary, involuntary, processor_ns;
};

/// The blocks of one candidate, in the order of the rounds.
using Series = std::vector<Measured>;

std::vector<double> each(const Series& series, double Measured::*figure) {
  std::vector<double> figures;
  for (const Measured& block : series) figures.push_back(block.*figure);
  return figures;
}

/// The position of the operation on the command line, the bytes, and the implementation.
using Key = std::tuple<std::size_t, std::size_t, int, std::string>;

/// Returns the blocks of one round; of several copy kernels the fastest.
std::map<Key, Measured> fastest_of(const nlohmann::json& blocks, std::vector<bench::Operation>& order) {
  std::map<Key, Measured> best;
  for (const auto& block : blocks) {
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
  return best;
}

bench::Interval in_microseconds(const bench::Interval& ns) { return {.middle = ns.middle / 1000, .low = ns.low / 1000, .high = ns.high / 1000}; }

/// Returns the median of the quotients of each round.
bench::Interval ratio_of(const Series& one, const Series& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < one.size(); ++i) ratios.push_back(one[i].median / std::max(ours[i].median, 1e-3));
  return bench::median_interval(ratios);
}

}  // namespace

void BenchResults::add(const std::string& set, const nlohmann::json& event, double stolen) {
  Set& its = sets_[place_of(set)];
  its.rounds.push_back({.stolen = stolen, .barrier_ns = event.at("barrier_ns"), .blocks = event.at("blocks")});
  its.counts = event.value("counts", nlohmann::json::array());
}

std::size_t BenchResults::place_of(const std::string& set) const {
  return static_cast<std::size_t>(std::ranges::find(sets_, set, &Set::name) - sets_.begin());
}

std::vector<const BenchResults::Round*> BenchResults::kept(const Set& set) {
  std::vector<const Round*> all, undisturbed;
  for (const Round& round : set.rounds) {
    all.push_back(&round);
    if (round.stolen <= most_stolen) undisturbed.push_back(&round);
  }
  return undisturbed.size() * 2 >= all.size() ? undisturbed : all;
}

std::size_t BenchResults::dropped(const std::string& set) const { return rounds(set) - kept(sets_[place_of(set)]).size(); }

std::optional<double> BenchResults::barrier_ns(const std::string& set) const {
  std::vector<double> values;
  for (const Round* round : kept(sets_[place_of(set)])) values.push_back(round->barrier_ns);
  return values.empty() ? std::nullopt : std::optional(bench::median(std::move(values)));
}

void BenchResults::add_rows(const Set& set, std::vector<BenchRow>& rows) const {
  std::map<Key, Series> series;
  std::vector<bench::Operation> order;
  const double flag_ns = barrier_ns(set.name).value_or(0);
  for (const Round* round : kept(set))
    for (auto& [key, block] : fastest_of(round->blocks, order)) series[key].push_back(block);
  for (const auto& [key, one] : series) {
    const auto& [place, bytes, column, impl] = key;
    BenchRow row{.set = set.name, .conditions = conditions_, .operation = order[place], .impl = impl, .backend = impl, .bytes = bytes};
    if (impl.starts_with("unisono")) row.backend = set.backend;
    if (const auto version = set.versions.find(impl); version != set.versions.end()) row.version = version->second;
    row.flag_ns = flag_ns;
    row.cores = cores_of(flag_ns, conditions_.ranks);
    std::vector<double> samples;
    for (const Measured& block : one) samples.insert(samples.end(), block.samples.begin(), block.samples.end());
    const std::vector<double> medians = each(one, &Measured::median);
    row.time_us = in_microseconds(bench::median_interval(medians));
    row.p99_us = bench::quantile(samples, 0.99) / 1000;
    row.min_us = *std::ranges::min_element(samples) / 1000;
    row.spread_us = (bench::quantile(medians, 0.75) - bench::quantile(medians, 0.25)) / 1000;
    row.voluntary = bench::median(each(one, &Measured::voluntary));
    row.involuntary = bench::median(each(one, &Measured::involuntary));
    row.processor_us = bench::median(each(one, &Measured::processor_ns)) / 1000;
    const auto ours = series.find({place, bytes, column_of("unisono"), "unisono"});
    if (impl != "unisono" && ours != series.end() && ours->second.size() == one.size()) row.ratio = ratio_of(one, ours->second);
    rows.push_back(std::move(row));
  }
}

std::vector<BenchRow> BenchResults::rows() const {
  std::vector<BenchRow> rows;
  for (const Set& set : sets_) add_rows(set, rows);
  return rows;
}

}  // namespace unisono::tools
