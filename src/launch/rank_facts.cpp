#include "launch/rank_facts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/process.h"

namespace unisono::launcher {
namespace {

constexpr double nanoseconds_per_second = 1e9;

const recorder::CallSeen* last_call(const RankFacts& rank) { return rank.record.recent.empty() ? nullptr : &rank.record.recent.back(); }

/// Returns the call in which a rank waits for longest; null where it waits in none.
const recorder::CallSeen* waiting_call(const RankFacts& rank) {
  const auto& recent = rank.record.recent;
  const auto found = std::ranges::find(recent, recorder::CallState::waiting, &recorder::CallSeen::state);
  return found == recent.end() ? nullptr : &*found;
}

std::string place_text(const recorder::CallSeen& call) { return call.place.empty() ? "" : fmt::format(" ({})", call.place); }

/// Says what a rank does that others wait for.
std::string whereabouts(const RankFacts& rank) {
  const std::uint64_t now = rank.record.now;
  if (!rank.process.lives) return "its process has ended";
  if (rank.process.is_stopped) return "its process is stopped";
  if (const auto* waiting = waiting_call(rank)) {
    const std::string whom = waiting->waited_for < 0 ? "" : fmt::format(", and waits for rank {}", waiting->waited_for);
    return fmt::format("it is in {}{} for {}{}", call_text(*waiting), place_text(*waiting), duration_text(now - waiting->begun), whom);
  }
  const auto* last = last_call(rank);
  if (last == nullptr) return "it is in the program, and has made no call yet";
  if (!last->is_over()) return fmt::format("it is busy in {}{}", call_text(*last), place_text(*last));
  const std::string since = last->done == 0 ? "" : fmt::format(" for {}", duration_text(now - last->done));
  return fmt::format("it is in the program{}, last seen in {}{}", since, call_text(*last), place_text(*last));
}

}  // namespace

ProcessFacts process_facts(int pid, std::int64_t life) {
  ProcessFacts facts;
  const std::string stat = base::stat_after_name(pid);
  if (stat.empty() || base::has_ended(pid, life)) return facts;
  std::istringstream words(stat);
  std::vector<std::string> fields;
  for (std::string word; words >> word;) fields.push_back(word);
  constexpr std::size_t user_time = 11, system_time = 12, resident_pages = 21;  // behind the name, see proc(5)
  if (fields.size() <= resident_pages) return facts;
  const char state = fields[0][0];
  facts.lives = state != 'Z' && state != 'X';
  facts.is_stopped = state == 'T' || state == 't';
  facts.cpu_seconds = (std::stod(fields[user_time]) + std::stod(fields[system_time])) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  facts.memory_bytes = std::stoull(fields[resident_pages]) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return facts;
}

RankFacts facts_of(recorder::RankSeen record) {
  RankFacts rank{.record = std::move(record), .process = {}};
  rank.process = process_facts(rank.record.pid, rank.record.life);
  const auto age = static_cast<double>(rank.record.now - std::min(rank.record.now, rank.record.began));
  if (age > 0) rank.process.cpu_share = rank.process.cpu_seconds / (age / nanoseconds_per_second);
  return rank;
}

std::string duration_text(std::uint64_t ns) {
  const double seconds = static_cast<double>(ns) / nanoseconds_per_second;
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::string call_text(const recorder::CallSeen& call) {
  return call.sequence == 0 ? fmt::format("{} of {}", call.operation, call.group)
                            : fmt::format("{} #{} of {}", call.operation, call.sequence, call.group);
}

std::string_view state_name(recorder::CallState state) {
  constexpr std::array<std::string_view, 6> names{"none", "queued", "running", "waiting", "done", "failed"};
  const auto index = static_cast<std::size_t>(state);
  return index < names.size() ? names[index] : "unknown";
}

const recorder::CallSeen* call_shown(const RankFacts& rank) {
  const auto& recent = rank.record.recent;
  const auto waiting = std::ranges::find(recent, recorder::CallState::waiting, &recorder::CallSeen::state);
  if (waiting != recent.end()) return &*waiting;
  return recent.empty() ? nullptr : &recent.back();
}

std::string_view state_text(const RankFacts& rank) {
  if (rank.record.state == recorder::RankState::left) return "left";
  if (!rank.process.lives) return "ended";
  if (rank.process.is_stopped) return "stopped";
  if (rank.record.state == recorder::RankState::failed) return "failed";
  if (!rank.has_joined) return "joining";
  const auto* call = call_shown(rank);
  if (call == nullptr || call->is_over()) return "program";
  return state_name(call->state);
}

double waiting_share(const RankFacts& rank) {
  const recorder::RankSeen& record = rank.record;
  std::uint64_t waited = record.waited;
  // The wait under way is not yet among those that are over.
  if (const auto* call = call_shown(rank);
      call != nullptr && call->state == recorder::CallState::waiting && call->begun != 0 && record.now > call->begun)
    waited += record.now - call->begun;
  return record.now > record.began ? std::min(1.0, static_cast<double>(waited) / static_cast<double>(record.now - record.began)) : 0;
}

std::vector<Delay> delays_of(std::span<const RankFacts> ranks, std::uint64_t at_least) {
  std::map<int, Delay> delays;  // by the rank that is waited for: the call that has waited longest for it
  for (const RankFacts& rank : ranks) {
    const auto* waiting = rank.process.lives ? waiting_call(rank) : nullptr;
    const std::uint64_t now = rank.record.now;
    if (waiting == nullptr || waiting->waited_for < 0 || waiting->begun == 0 || now < waiting->begun + at_least) continue;
    Delay& delay = delays[waiting->waited_for];
    if (const std::uint64_t waited = now - waiting->begun; waited > delay.for_ns)
      delay = {.text = fmt::format("rank {} has not come to {} for {}", waiting->waited_for, call_text(*waiting), duration_text(waited)),
               .call = call_text(*waiting),
               .late = waiting->waited_for,
               .for_ns = waited};
  }
  std::vector<Delay> found;
  for (auto& [late, delay] : delays) {
    const auto rank = std::ranges::find(ranks, late, [](const RankFacts& each) { return each.record.rank; });
    delay.text += rank == ranks.end() ? ": it is on another host, or was not recorded" : ": " + whereabouts(*rank);
    found.push_back(std::move(delay));
  }
  // A rank that itself waits for another one is a consequence of that.
  const auto waits = [&](const Delay& delay) {
    const auto rank = std::ranges::find(ranks, delay.late, [](const RankFacts& each) { return each.record.rank; });
    return rank != ranks.end() && waiting_call(*rank) != nullptr;
  };
  std::ranges::stable_sort(found, [&](const Delay& a, const Delay& b) { return std::pair(waits(a), b.for_ns) < std::pair(waits(b), a.for_ns); });
  return found;
}

}  // namespace unisono::launcher
