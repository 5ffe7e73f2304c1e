#include "launch/view/rank_facts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/host.h"

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

void number_by_last_generation(recorder::RankSeen& record) {
  if (record.rank < 0 || record.last.generation == 0 || record.last.rank < 0) return;
  record.rank = record.last.rank;
  if (record.last.size > 0) record.size = record.last.size;
}

RankFacts facts_of(recorder::RankSeen record) {
  RankFacts rank{.record = std::move(record), .process = {}};
  number_by_last_generation(rank.record);
  // In a container the process has another number than here, where all that follows is asked of the system.
  if (const pid_t here = base::number_here(rank.record.pid, rank.record.life); here > 0) {
    rank.record.pid = here;
    rank.process = process_facts(here, rank.record.life);
  }
  const auto age = static_cast<double>(rank.record.now - std::min(rank.record.now, rank.record.began));
  if (age > 0) rank.process.cpu_share = rank.process.cpu_seconds / (age / nanoseconds_per_second);
  return rank;
}

void keep_last_generation(std::vector<RankFacts>& ranks) {
  const auto order = [](const RankFacts& rank) { return std::tuple(rank.record.rank, rank.has_joined ? 0 : 1, -rank.record.last.generation); };
  std::ranges::stable_sort(ranks, {}, order);
  const auto is_older = [](const RankFacts& kept, const RankFacts& rank) {
    return rank.record.rank == kept.record.rank && (kept.has_joined != rank.has_joined || kept.record.last.generation != rank.record.last.generation);
  };
  const auto left_out = std::ranges::unique(ranks, is_older);
  ranks.erase(left_out.begin(), left_out.end());
}

std::string_view state_name(recorder::CallState state) {
  constexpr std::array<std::string_view, 6> names{"none", "queued", "running", "waiting", "done", "failed"};
  const auto index = static_cast<std::size_t>(state);
  return index < names.size() ? names[index] : "unknown";
}

// An asynchronous call waits for others while the program computes.
const recorder::CallSeen* call_shown(const RankFacts& rank) {
  const auto& recent = rank.record.recent;
  const auto waits = [](const recorder::CallSeen& call) { return call.state == recorder::CallState::waiting; };
  const auto is_direct = [](const recorder::CallSeen& call) { return call.queued == 0; };
  if (const auto found = std::ranges::find_if(recent, [&](const auto& call) { return waits(call) && is_direct(call); }); found != recent.end())
    return &*found;
  if (rank.record.program_waits_since != 0) {
    if (const auto found = std::ranges::find_if(recent, waits); found != recent.end()) return &*found;
  }
  const auto last = std::ranges::find_if(recent.rbegin(), recent.rend(), [&](const auto& call) { return !waits(call); });
  if (last != recent.rend()) return &*last;
  return recent.empty() ? nullptr : &recent.back();
}

std::uint64_t wait_under_way(const RankFacts& rank) {
  const recorder::RankSeen& record = rank.record;
  const auto* const call = call_shown(rank);
  if (call == nullptr || call->state != recorder::CallState::waiting || call->begun == 0) return 0;
  std::uint64_t since = call->begun;
  if (call->queued != 0) {
    if (record.program_waits_since == 0) return 0;
    since = std::max(since, record.program_waits_since);
  }
  return record.now - std::min(record.now, since);
}

std::string_view state_text(const RankFacts& rank) {
  if (rank.record.state == recorder::RankState::left) return "left";
  if (!rank.process.lives) return "ended";
  if (rank.process.is_stopped) return "stopped";
  if (rank.record.state == recorder::RankState::failed) return "failed";
  if (!rank.has_joined) return "joining";
  const auto* call = call_shown(rank);
  if (call == nullptr || call->is_over()) return "program";
  if (call->state == recorder::CallState::waiting && wait_under_way(rank) == 0) return "program";
  return state_name(call->state);
}

double waiting_share(const RankFacts& rank) {
  const recorder::RankSeen& record = rank.record;
  const std::uint64_t waited = record.waited + wait_under_way(rank);  // which is not yet among those that are over
  return record.now > record.began ? std::min(1.0, static_cast<double>(waited) / static_cast<double>(record.now - record.began)) : 0;
}

}  // namespace unisono::launcher
