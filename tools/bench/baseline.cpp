#include "bench/baseline.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "common/text.h"
#include "unisono/error.h"

namespace unisono::tools {

namespace {

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
  std::size_t missing = 0;
  for (const BenchRow& row : rows) {
    const BenchRow* before = same_in(rows_, row);
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
  if (const std::size_t changed = changed_in(others); changed != 0)
    text += "\n" + wrap(fmt::format("{} of {} times of others changed as well, so the machine may have: trust the ratios (×) before the times",
                                    changed, others.size()),
                        2);
  append_table(text, shown);
  return text;
}

}  // namespace unisono::tools
