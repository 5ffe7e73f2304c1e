#include "launch/rank_facts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/process.h"

namespace unisono::launcher {
namespace {

constexpr double nanoseconds_per_second = 1e9;

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

}  // namespace unisono::launcher
