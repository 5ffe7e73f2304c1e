#include "bench/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <type_traits>
#include <utility>

#include "base/processors.h"
#include "common/text.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

/// Visits the members of a result's JSON that are read again, with what they stand for.
template <class Row, class Visit>
void each_member(Row& row, const Visit& visit) {
  visit("/set", row.set);
  visit("/ranks", row.conditions.ranks);
  visit("/hosts", row.conditions.hosts);
  visit("/dtype", row.conditions.dtype);
  visit("/buffers", row.conditions.buffers);
  visit("/data", row.conditions.data);
  visit("/impl", row.impl);
  visit("/backend", row.backend);
  visit("/bytes", row.bytes);
  visit("/median_us", row.time_us.middle);
  visit("/median_low_us", row.time_us.low);
  visit("/median_high_us", row.time_us.high);
  visit("/p99_us", row.p99_us);
  visit("/min_us", row.min_us);
  visit("/iqr_us", row.spread_us);
  visit("/switches/voluntary", row.voluntary);
  visit("/switches/involuntary", row.involuntary);
  visit("/processor_us", row.processor_us);
}

/// Takes a whole number from `least` on; a file may have any number there.
template <class T>
T whole(const nlohmann::json& value, T least) {
  const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                               : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!fits || value.get<T>() < least)
    throw InvalidArgument(
        fmt::format("{} is not a whole number of {} or more", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), least));
  return value.get<T>();
}

BenchRow row_from(const nlohmann::json& entry) {
  const std::string name = entry.at("op");
  const std::optional<bench::Operation> operation = bench::parse_operation(name);
  if (!operation) throw InvalidArgument(fmt::format("unknown operation '{}'", name));
  BenchRow row{.operation = *operation};
  each_member(row, [&]<class Value>(const char* path, Value& value) {
    const nlohmann::json& found = entry.at(nlohmann::json::json_pointer(path));
    if constexpr (std::is_integral_v<Value>) value = whole(found, std::is_signed_v<Value> ? Value{1} : Value{0});
    else found.get_to(value);
  });
  // Older results lack these.
  row.version = entry.value("version", "");
  row.cores = entry.value("cores", "");
  row.flag_ns = entry.value("flag_ns", 0.0);
  if (const auto ratio = entry.find("ratio"); ratio != entry.end())
    row.ratio = bench::Interval{.middle = ratio->at("median"), .low = ratio->at("low"), .high = ratio->at("high")};
  return row;
}

/// Returns what the JSON library says, without the number of its error in front.
std::string reason_of(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const auto end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

/// A figure of both results.
struct Pair {
  const BenchRow* row;
  bench::Interval before, now;

  bool changed() const { return now.low > before.high || now.high < before.low; }
  double quotient() const { return before.middle > 0 ? now.middle / before.middle : 0; }
};

const BenchRow* same_in(const std::vector<BenchRow>& rows, const BenchRow& row) {
  const auto found = std::ranges::find_if(rows, [&](const BenchRow& other) {
    return other.set == row.set && other.conditions == row.conditions && other.operation == row.operation && other.impl == row.impl &&
           other.backend == row.backend && other.bytes == row.bytes;
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string interval_text(const bench::Interval& value, double unit, std::string (*text)(double)) {
  return fmt::format("{} [{}–{}]", text(value.middle / unit), text(value.low / unit), text(value.high / unit));
}

std::string short_time(double value) { return value < 1000 || value >= 99999.5 ? three_digits(value) : fmt::format("{:.0f}", value); }

void append_table(std::string& text, const std::vector<Pair>& pairs) {
  const auto line = [&](std::string_view size, std::string_view what, std::string_view before, std::string_view now, std::string_view quotient) {
    text += "\n" + pad_left(size, 8) + "  " + pad_right(what, 14) + pad_left(before, 21) + pad_left(now, 21) + pad_left(quotient, 12);
  };
  const BenchRow* last = nullptr;
  for (const Pair& pair : pairs) {
    if (!pair.changed()) continue;
    if (last == nullptr || last->operation != pair.row->operation || last->conditions != pair.row->conditions) {
      text += "\n\n" + wrap(fmt::format("{}: {}", bench::to_string(pair.row->operation), text_of(pair.row->conditions)), 2);
      line("size", "", "before", "now", "now/before");
    }
    const bool is_time = pair.row->impl == "unisono";
    constexpr double most_us = 1e5, us_of_ms = 1000;
    const bool in_ms = is_time && std::max(pair.before.high, pair.now.high) >= most_us;
    const auto shown = [&](const bench::Interval& value) {
      return interval_text(value, in_ms ? us_of_ms : 1, is_time ? &short_time : &three_digits);
    };
    const std::string what = is_time ? fmt::format("unisono, {}", in_ms ? "ms" : "us") : fmt::format("{} ×", pair.row->impl);
    line(size_text(pair.row->bytes), what, shown(pair.before), shown(pair.now), three_digits(pair.quotient()));
    last = pair.row;
  }
}

std::size_t changed_in(const std::vector<Pair>& pairs) {
  return static_cast<std::size_t>(std::ranges::count_if(pairs, [](const Pair& pair) { return pair.changed(); }));
}

}  // namespace

std::string_view cores_of(double flag_ns, int ranks) {
  constexpr double most_of_near = 100, least_of_distant = 150;  // measured on virtual machines, where both states occur
  if (ranks > base::allowed_processors()) return shared_cores;
  return flag_ns < most_of_near ? near_cores : flag_ns > least_of_distant ? distant_cores : cores_between;
}

std::string text_of(const BenchConditions& conditions) {
  const std::string hosts = conditions.hosts > 1 ? fmt::format(" as of {} hosts", conditions.hosts) : std::string();
  return fmt::format("{}{}, {}, {} buffers, {} data", counted(static_cast<std::size_t>(conditions.ranks), "rank"), hosts, conditions.dtype,
                     conditions.buffers, conditions.data);
}

std::string cell_text(bench::Operation operation, std::size_t bytes) {
  return bytes == 0 ? std::string(bench::to_string(operation)) : fmt::format("{} of {}", bench::to_string(operation), format_bytes(bytes));
}

// A figure has so many letters at most that its column holds it, whatever it is.

std::string size_text(std::size_t bytes) {
  if (bytes == 0) return "-";
  constexpr std::size_t most = 10;
  const std::string exact = format_bytes(bytes);
  return exact.size() <= most ? exact : fmt::format("{:.4g} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string three_digits(double value) {
  if (value >= 9999.5) return fmt::format("{:.0e}", value);
  return value < 10 ? fmt::format("{:.2f}", value) : fmt::format("{:.{}f}", value, value < 100 ? 1 : 0);
}

std::string microseconds(double us) {
  if (us >= 1e7) return fmt::format("{:.2e}", us);
  return us < 10 ? fmt::format("{:.3f}", us) : us < 1000 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us);
}

std::string ratio_text(const bench::Interval& ratio) {
  return fmt::format("{} [{}–{}]", three_digits(ratio.middle), three_digits(ratio.low), three_digits(ratio.high));
}

double gigabytes_per_second(const BenchRow& row) { return row.time_us.middle > 0 ? static_cast<double>(row.bytes) / row.time_us.middle / 1000 : 0; }

double messages_per_second(const BenchRow& row) {
  const double of_a_time = row.operation == bench::Operation::bidirectional ? 2 : 1;
  return row.time_us.middle > 0 ? of_a_time * 1e6 / row.time_us.middle : 0;
}

double bus_factor_of(const BenchRow& row) { return row.impl == roofline_impl ? 1 : bench::bus_factor(row.operation, row.conditions.ranks); }

bool is_of_peer(const BenchRow& row) { return !row.impl.starts_with("unisono") && row.impl != roofline_impl && row.impl != "ucx-engine"; }

nlohmann::json to_json(const std::vector<BenchRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const BenchRow& row : rows) {
    const double algbw = gigabytes_per_second(row);
    nlohmann::json entry = {{"op", bench::to_string(row.operation)}, {"algbw_gbs", algbw}, {"busbw_gbs", algbw * bus_factor_of(row)}};
    entry["verified"] = true;  // a wrong result would have ended the run
    each_member(row, [&](const char* path, const auto& value) { entry[nlohmann::json::json_pointer(path)] = value; });
    if (bench::is_in_pairs(row.operation) && row.impl != roofline_impl) entry["messages_per_s"] = messages_per_second(row);
    if (row.conditions.buffers == device_buffers) entry["timing"] = "rows of calls, to the end of the device's work";
    if (!row.version.empty()) entry["version"] = row.version;
    if (!row.cores.empty()) entry.update({{"cores", row.cores}, {"flag_ns", row.flag_ns}});
    if (row.ratio) entry["ratio"] = {{"median", row.ratio->middle}, {"low", row.ratio->low}, {"high", row.ratio->high}};
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<BenchRow> read_rows(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(fmt::format("{} is not a result of unisono bench --json: {}", path, why));
  };
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) throw InvalidArgument("cannot read " + path);
  const nlohmann::json list = nlohmann::json::parse(file, nullptr, false);
  if (list.is_discarded()) refuse("it is not JSON");
  if (!list.is_array()) refuse("it is not a list");
  if (list.empty()) refuse("it is an empty list");
  std::vector<BenchRow> rows;
  for (const auto& entry : list) {
    try {
      rows.push_back(row_from(entry));
    } catch (const nlohmann::json::exception& error) {
      refuse(fmt::format("entry {}: {}", rows.size(), reason_of(error)));
    } catch (const InvalidArgument& error) {
      refuse(fmt::format("entry {}: {}", rows.size(), error.what()));
    }
  }
  return rows;
}

BenchBaseline::BenchBaseline(std::string path) : path_(std::move(path)), rows_(read_rows(path_)) {}

void BenchBaseline::check_has(const BenchConditions& conditions, const std::vector<std::string>& sets) const {
  const auto is_comparable = [&](const BenchRow& row) { return row.conditions == conditions && std::ranges::find(sets, row.set) != sets.end(); };
  if (std::ranges::none_of(rows_, is_comparable))
    throw InvalidArgument(fmt::format("--baseline {} has no result of {} in the set {}", path_, text_of(conditions), fmt::join(sets, " or ")),
                          {.hint = fmt::format("it has those of {}, set {}", text_of(rows_.front().conditions), rows_.front().set)});
}

std::string BenchBaseline::changes_in(const std::vector<BenchRow>& rows) const {
  std::vector<Pair> shown;   // unisono's times, and the others' by them
  std::vector<Pair> others;  // the others' own times, which tell whether the machine has changed
  std::size_t missing = 0, moved = 0;
  std::set<std::string> renewed;
  for (const BenchRow& row : rows) {
    const BenchRow* before = same_in(rows_, row);
    if (before != nullptr && before->cores != row.cores && !before->cores.empty()) ++moved;
    if (before != nullptr && before->version != row.version && !before->version.empty())
      renewed.insert(fmt::format("{} was {} and is {}", row.impl, before->version, row.version));
    if (before == nullptr) {
      ++missing;
    } else if (row.impl == "unisono") {
      shown.push_back({.row = &row, .before = before->time_us, .now = row.time_us});
    } else {
      others.push_back({.row = &row, .before = before->time_us, .now = row.time_us});
      if (is_of_peer(row) && row.ratio && before->ratio) shown.push_back({.row = &row, .before = *before->ratio, .now = *row.ratio});
    }
  }
  std::string text = wrap(fmt::format("baseline {}: {} of {} figures changed. A figure has changed if the 95 % intervals of the two medians have no "
                                      "value in common.",
                                      path_, changed_in(shown), shown.size()),
                          10);
  if (missing != 0)
    text += "\n" + wrap(fmt::format("{} of {} results have no counterpart in it (set, backend, operation or size)", missing, rows.size()), 2);
  for (const std::string& peer : renewed) text += "\n" + wrap(peer, 2);
  if (moved != 0)
    text +=
        "\n" + wrap(fmt::format("{} of {} results come from cores that are nearer to each other or more distant than before", moved, rows.size()), 2);
  if (const std::size_t changed = changed_in(others); changed != 0)
    text +=
        "\n" + wrap(fmt::format("{} of {} times of others changed as well, so the machine may have changed: trust the ratios (×) more than the times",
                                changed, others.size()),
                    2);
  append_table(text, shown);
  return text;
}

}  // namespace unisono::tools
