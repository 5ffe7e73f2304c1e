#include "hosts/host_states.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "launch/view/rank_facts.h"

namespace unisono::tools {
namespace {

void append_to(std::string& list, const std::string& more) {
  if (!list.empty() && !more.empty()) list += ", ";
  list += more;
}

/// Adds "7 waiting, 1 program".
void add_counts(std::map<std::string, long>& counts, const std::string& text) {
  std::istringstream words(text);
  long number = 0;
  for (std::string state; words >> number >> state;) {
    if (state.ends_with(',')) state.pop_back();
    counts[state] += number;
  }
}

}  // namespace

void HostStates::take(std::size_t host, std::string_view text) {
  Host state;
  state.texts = launcher::StatusTexts::of(text, state.restarts);
  hosts_.at(host) = state;
}

// A launcher sees its own ranks only: the rank that they wait for may wait itself, as its own host says, and tells whom for.
launcher::LateRank HostStates::latest(const std::string& each) const {
  launcher::LateRank latest, latest_of_all;
  for (const Host& host : hosts_) {
    const launcher::LateRank& late = host.texts.late;
    if (late.rank < 0) continue;
    const bool waits = (", " + each + ",").find(fmt::format(", {} waiting,", late.rank)) != std::string::npos;
    if (!waits && late.for_ns > latest.for_ns) latest = late;
    if (late.for_ns > latest_of_all.for_ns) latest_of_all = late;
  }
  return latest.rank >= 0 ? latest : latest_of_all;
}

std::string HostStates::line(std::chrono::nanoseconds elapsed, std::size_t columns) const {
  launcher::StatusTexts all;
  int restarts = 0;
  std::map<std::string, long> counts;
  for (const Host& host : hosts_) {
    append_to(all.each, host.texts.each);
    add_counts(counts, host.texts.counts);
    restarts = std::max(restarts, host.restarts);
  }
  if (all.each.empty()) return {};
  all.late = latest(all.each);
  for (const std::string_view state : launcher::rank_states) {
    if (const auto found = counts.find(std::string(state)); found != counts.end()) append_to(all.counts, fmt::format("{} {}", found->second, state));
  }
  return launcher::status_line_text(all, elapsed, restarts, columns);
}

}  // namespace unisono::tools
