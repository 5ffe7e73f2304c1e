#include "bench/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <utility>

#include "bench/options.h"
#include "common/sizes.h"
#include "unisono/error.h"

namespace unisono::tools {

std::string text_of(const BenchConditions& conditions) {
  const std::string hosts = conditions.hosts > 1 ? fmt::format(" as of {} hosts", conditions.hosts) : std::string();
  return fmt::format("{} rank{}{}, {}, {} buffers, {} data", conditions.ranks, conditions.ranks == 1 ? "" : "s", hosts, conditions.dtype,
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

bool is_of_peer(const BenchRow& row) { return std::ranges::find(peer_names(), row.impl) != peer_names().end(); }

nlohmann::json to_json(const std::vector<BenchRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const BenchRow& row : rows) {
    const double algbw = gigabytes_per_second(row);
    nlohmann::json entry = {{"op", bench::to_string(row.operation)},
                            {"impl", row.impl},
                            {"backend", row.backend},
                            {"ranks", row.conditions.ranks},
                            {"hosts", row.conditions.hosts},
                            {"bytes", row.bytes},
                            {"dtype", row.conditions.dtype},
                            {"buffers", row.conditions.buffers},
                            {"data", row.conditions.data},
                            {"median_us", row.time_us.middle},
                            {"median_low_us", row.time_us.low},
                            {"median_high_us", row.time_us.high},
                            {"p99_us", row.p99_us},
                            {"min_us", row.min_us},
                            {"algbw_gbs", algbw},
                            {"busbw_gbs", algbw * bus_factor_of(row)},
                            {"verified", true},  // a wrong result would have ended the run
                            {"set", row.set},
                            {"switches", {{"voluntary", row.voluntary}, {"involuntary", row.involuntary}}},
                            {"processor_us", row.processor_us},
                            {"iqr_us", row.spread_us}};
    if (bench::is_in_pairs(row.operation) && row.impl != roofline_impl) entry["messages_per_s"] = messages_per_second(row);
    if (row.ratio) entry["ratio"] = {{"median", row.ratio->middle}, {"low", row.ratio->low}, {"high", row.ratio->high}};
    list.push_back(std::move(entry));
  }
  return list;
}

namespace {

/// Takes a whole number from `least` on; a file may have any number there.
template <class T>
T whole(const nlohmann::json& value, T least) {
  const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                               : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!fits || value.get<T>() < least)
    throw InvalidArgument(
        fmt::format("{} is no whole number from {} on", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), least));
  return value.get<T>();
}

BenchRow row_from(const nlohmann::json& entry) {
  const std::string name = entry.at("op");
  const std::optional<bench::Operation> operation = bench::parse_operation(name);
  if (!operation) throw InvalidArgument(fmt::format("unknown operation '{}'", name));
  BenchRow row{.set = entry.at("set"),
               .conditions = {.ranks = whole(entry.at("ranks"), 1),
                              .hosts = whole(entry.at("hosts"), 1),
                              .dtype = entry.at("dtype"),
                              .buffers = entry.at("buffers"),
                              .data = entry.at("data")},
               .operation = *operation,
               .impl = entry.at("impl"),
               .backend = entry.at("backend"),
               .bytes = whole(entry.at("bytes"), std::size_t{0}),
               .time_us = {.middle = entry.at("median_us"), .low = entry.at("median_low_us"), .high = entry.at("median_high_us")},
               .p99_us = entry.at("p99_us"),
               .min_us = entry.at("min_us"),
               .spread_us = entry.at("iqr_us"),
               .voluntary = entry.at("switches").at("voluntary"),
               .involuntary = entry.at("switches").at("involuntary"),
               .processor_us = entry.at("processor_us")};
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

}  // namespace

std::vector<BenchRow> read_rows(const std::string& path) {
  const auto refuse = [&](const std::string& why) { throw InvalidArgument(fmt::format("{} is no result of unisono bench --json: {}", path, why)); };
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) throw InvalidArgument("cannot read " + path);
  const nlohmann::json list = nlohmann::json::parse(file, nullptr, false);
  if (list.is_discarded()) refuse("it is no JSON");
  if (!list.is_array()) refuse("it is no list");
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

}  // namespace unisono::tools
