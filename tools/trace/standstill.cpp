#include <algorithm>
#include <string>

#include "base/host.h"
#include "status/jobs.h"
#include "trace/totals.h"

namespace unisono::tools {
namespace {

constexpr std::uint64_t at_once_ns = 200'000'000;

/// True where the process that has written the trace is one of this host, and lives.
bool lives_here(const recorder::RankSeen& about) {
  constexpr unsigned namespace_bits = 32;
  const bool is_here = about.life != 0 && about.life >> namespace_bits == base::own_life() >> namespace_bits && about.host == base::host_name();
  return is_here && about.state != recorder::RankState::left && launcher::process_facts(about.pid, about.life).lives;
}

/// Returns the generation in which the job's last calls were made.
int last_generation(const JobTrace& trace) {
  int last = 0;
  if (trace.numbers.empty()) return last;  // it has not grown
  for (const TracedRank& rank : trace.ranks) {
    rank.reader->each([&](const recorder::TracedCall& call) { last = std::max(last, rank.generation_of(call.group)); });
  }
  return last;
}

/// Puts places into the record for the ranks of its generations, of which each counts anew.
void name_places(recorder::RankSeen& record, const JobTrace& trace, const TracedRank& rank) {
  const auto place_of = [&](int generation, int in_world) {
    const int number = trace.number_of(generation, in_world);
    const TracedRank* const found = trace.find(number);
    return found == nullptr ? number : found->place;
  };
  record.rank = rank.place;
  for (recorder::CallSeen& call : record.recent) {
    call.peer = place_of(call.generation, call.peer);
    call.waited_for = place_of(call.generation, call.waited_for);
  }
}

}  // namespace

std::vector<launcher::Delay> standstill_of(const JobTrace& trace) {
  std::vector<RankFacts> ranks;
  std::uint64_t latest = 0;
  const int generation = last_generation(trace);
  for (const TracedRank& traced : trace.ranks) {
    if (generation > 1 ? traced.rank_in(generation) < 0 : traced.restarts > 0) continue;  // the job goes on without it, or has gone on without it
    const bool lives = lives_here(traced.about);
    RankFacts rank{.record = traced.reader->last_calls(lives), .process = {}, .is_trace = true};
    rank.process = lives ? launcher::process_facts(rank.record.pid, rank.record.life) : ProcessFacts{.lives = true};
    name_places(rank.record, trace, traced);
    latest = std::max(latest, rank.record.now);
    ranks.push_back(std::move(rank));
  }
  if (trace.clocks.size() == 1) {
    // The ranks that a launcher ends together were all there until then; one that ended before them was not.
    for (RankFacts& rank : ranks) {
      if (rank.record.state == recorder::RankState::ended && rank.record.now + at_once_ns < latest) rank.process.lives = false;
    }
  }
  return launcher::delays_of(ranks, launcher::told_delay_ns);
}

}  // namespace unisono::tools
