#include "trace/profiler.h"

#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using Event = nlohmann::json::parse_event_t;

/// Parses a file and keeps none of its events: each one is visited, and dropped. Returns what else it says.
nlohmann::json parse_events(const std::string& path, const std::function<void(const nlohmann::json&)>& visit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InvalidArgument("the file " + path + " cannot be read");
  std::string key;  // of the outermost object
  const auto look = [&](int depth, Event event, nlohmann::json& parsed) {
    constexpr int of_members = 1, of_events = 2;
    if (event == Event::key && depth == of_members) key = parsed.get<std::string>();
    if (event != Event::object_end || depth != of_events || key != "traceEvents") return true;
    visit(parsed);
    return false;
  };
  try {
    auto rest = nlohmann::json::parse(file, look);
    if (rest.is_object()) return rest;
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(fmt::format("{} is not JSON: {}", path, error.what()));
  }
  throw InvalidArgument(path + " is not a trace of torch.profiler: it holds no object");
}

std::string text_in(const nlohmann::json& event, const char* name) {
  const auto found = event.find(name);
  if (found == event.end()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace

ProfilerFile parse_profiler_file(const std::string& text) {
  const auto equals = text.find('=');
  const auto rank = parse_number<int>(std::string_view(text).substr(0, equals));
  if (equals == std::string::npos || !rank || *rank < 0 || equals + 1 == text.size())
    throw InvalidArgument(fmt::format("--with {}: a rank and a file are wanted", text), {.hint = "--with 0=profile.json"});
  return {.rank = *rank, .path = text.substr(equals + 1)};
}

void each_range(const ProfilerFile& file, const JobTrace& trace, const std::function<void(const ProfilerRange&)>& visit) {
  const TracedRank* const rank = trace.last_of(file.rank);
  if (rank == nullptr) throw InvalidArgument(fmt::format("--with {}={}: there is no trace of this rank", file.rank, file.path));
  const nlohmann::json rest = parse_events(file.path, [](const nlohmann::json&) {});
  if (!rest.contains("traceEvents")) throw InvalidArgument(file.path + " is not a trace of torch.profiler: it has no traceEvents");
  const auto base = rest.find("baseTimeNanoseconds");
  const std::int64_t base_ns = base == rest.end()          ? 0
                               : base->is_number_integer() ? base->get<std::int64_t>()
                               : base->is_number()         ? whole_ns(base->get<double>())
                                                           : 0;
  // The moment at which the rank's trace began, on both clocks. It lies before the beginning of what is shown where calls were lost.
  const std::uint64_t began = rank->about.began + static_cast<std::uint64_t>(trace.clocks[rank->host].shift_at(rank->about.began)) - trace.origin;
  const std::uint64_t zero = static_cast<std::uint64_t>(base_ns) - rank->about.real_at_began + began;  // of the profiler
  const auto span = static_cast<std::int64_t>(trace.span);
  parse_events(file.path, [&](const nlohmann::json& event) {
    const auto phase = event.find("ph"), ts = event.find("ts"), dur = event.find("dur");
    if (phase == event.end() || *phase != "X" || ts == event.end() || !ts->is_number()) return;
    constexpr double ns_of_us = 1000;
    const std::int64_t since_base = whole_ns(std::round(ts->get<double>() * ns_of_us));
    const std::int64_t length = dur != event.end() && dur->is_number() ? whole_ns(std::round(dur->get<double>() * ns_of_us)) : 0;
    const std::int64_t begin = wrapped(zero + static_cast<std::uint64_t>(since_base));
    const std::int64_t end = wrapped(static_cast<std::uint64_t>(begin) + static_cast<std::uint64_t>(std::max<std::int64_t>(length, 0)));
    if (end <= 0 || begin >= span || end < begin) return;
    visit({.begin = static_cast<std::uint64_t>(std::max<std::int64_t>(begin, 0)),
           .end = static_cast<std::uint64_t>(std::min(end, span)),
           .name = text_in(event, "name"),
           .category = text_in(event, "cat"),
           .thread = text_in(event, "pid") + " " + text_in(event, "tid"),
           .event = &event});
  });
}

}  // namespace unisono::tools
