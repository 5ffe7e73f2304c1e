#include "hosts/host_states.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "launch/rank_facts.h"

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
  std::istringstream fields{std::string(text)};
  Host state;
  std::string restarts;
  std::getline(fields, restarts, '\t');
  std::istringstream(restarts) >> state.restarts;
  for (std::string* field : {&state.texts.each, &state.texts.counts, &state.texts.late}) std::getline(fields, *field, '\t');
  hosts_.at(host) = state;
}

std::string HostStates::line(std::chrono::nanoseconds elapsed, std::size_t columns) const {
  launcher::StatusTexts all;
  int restarts = 0;
  std::map<std::string, long> counts;
  for (const Host& host : hosts_) {
    append_to(all.each, host.texts.each);
    add_counts(counts, host.texts.counts);
    if (all.late.empty()) all.late = host.texts.late;
    restarts = std::max(restarts, host.restarts);
  }
  if (all.each.empty()) return {};
  for (const std::string_view state : launcher::rank_states) {
    if (const auto found = counts.find(std::string(state)); found != counts.end()) append_to(all.counts, fmt::format("{} {}", found->second, state));
  }
  return launcher::status_line_text(all, elapsed, restarts, columns);
}

}  // namespace unisono::tools
