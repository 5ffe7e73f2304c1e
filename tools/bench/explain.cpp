#include "bench/explain.h"

#include <fmt/format.h>

#include <ostream>
#include <string>

#include "common/text.h"
#include "harness/counted.h"

namespace unisono::tools {
namespace {

using nlohmann::json;
using Kind = bench::CountedFunction::Kind;

std::string bytes_text(double bytes) {
  const auto [number, unit] = scaled_bytes(bytes);
  return fmt::format("{:.3g} {}", number, unit);
}

/// Returns a line about one function: its calls, bytes and time in one call of the bench.
std::string line_of(const json& function, double calls) {
  const auto mean = [&](const char* what) { return function.at(what).get<double>() / calls; };
  const Kind kind = function.at("kind").get<Kind>();
  const std::string name = (function.at("others").get<bool>() ? "others: " : "") + function.at("name").get<std::string>();
  const std::string bytes = mean("bytes") > 0 ? bytes_text(mean("bytes")) : "";
  const std::string time = mean("ns") > 0 ? fmt::format("{:.2f} us", mean("ns") / 1000) : "";
  std::string line = fmt::format("  {:<25}{:>8.2f}{:>12}{:>13}", name, mean("calls"), bytes, time);
  if (kind == Kind::moves_bytes && mean("in_vain") > 0) line += fmt::format("  {:.2f} moved nothing", mean("in_vain"));
  if (kind == Kind::waits) line += fmt::format("  {:.2f} woken", mean("calls") - mean("in_vain"));
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

void print_rank(std::ostream& out, const json& counted, std::size_t rank) {
  const auto calls = counted.at("calls").get<double>();
  const double us = counted.at("ns").get<double>() / 1000;
  out << fmt::format(" rank {}: {:.2f} us, of which\n", rank, us);
  double known = 0;
  for (const json& function : counted.at("functions")) {
    out << line_of(function, calls) << "\n";
    if (!function.at("others").get<bool>()) known += function.at("ns").get<double>() / 1000 / calls;
  }
  out << fmt::format("  {:<45}{:>10.2f} us\n", "all else", us - known);
}

}  // namespace

void print_counts(std::ostream& out, const json& counts) {
  if (counts.empty()) return;
  for (std::size_t i = 0; i < counts.front().size(); ++i) {
    const json& first = counts.front().at(i);
    out << fmt::format("\n{}, {} of {}: one call, the mean of {}\n", first.at("impl").get<std::string>(), first.at("op").get<std::string>(),
                       format_bytes(first.at("bytes").get<std::size_t>()), first.at("calls").get<std::size_t>());
    for (std::size_t rank = 0; rank < counts.size(); ++rank) print_rank(out, counts.at(rank).at(i), rank);
  }
  out << wrap(
             "\nThe calls of functions of the C library are counted, on the thread that calls unisono and on the other threads of its process "
             "(others). The time of the other threads is not a part of the call's. A waiting function is woken if it ends by an event. Copies of "
             "less than 4 KiB are not timed. The rest is computation, waits that read memory, and work without a function's name: locks within the C "
             "library, and copies by instructions of a compiler or a library. Counting itself takes some 0.05 us for each system call.",
             0)
      << "\n";
}

}  // namespace unisono::tools
