#include "schedule/network_override.h"

#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/environment.h"
#include "unisono/error.h"

namespace unisono::schedule {

std::optional<NetworkParameters> parse_network(std::string_view text) {
  if (text.empty()) return std::nullopt;
  NetworkParameters parameters;
  if (text == "assumed") return parameters;
  std::vector<double> figures;
  const char* at = text.data();
  const char* const end = at + text.size();
  bool is_wrong = false, goes_on = true;
  while (goes_on && !is_wrong) {
    double figure = 0;
    const auto [next, error] = std::from_chars(at, end, figure);
    goes_on = error == std::errc() && next != end && *next == ',';
    is_wrong = error != std::errc() || !std::isfinite(figure) || figure < 0 || (next != end && !goes_on);
    figures.push_back(figure);
    at = next + 1;
  }
  if (is_wrong || figures.size() < 3 || figures.size() > 4 || (figures.size() == 4 && figures[3] < 1)) {
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

}  // namespace unisono::schedule
