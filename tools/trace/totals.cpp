#include "trace/totals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "base/host.h"
#include "common/text.h"
#include "launch/job/report.h"
#include "recorder/trace_file.h"
#include "status/jobs.h"

namespace unisono::tools {
namespace {

constexpr std::size_t most_rows = 16, most_named = 8, name_width = 22;

std::string time_text(std::uint64_t ns) {
  const double seconds = static_cast<double>(ns) / 1e9;
  if (seconds < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string amount_text(std::uint64_t bytes) {
  const auto [amount, unit] = scaled_bytes(static_cast<double>(bytes));
  return unit == "B" ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", amount, unit);
}

std::string part_text(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "" : fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string row_of(std::string first, std::initializer_list<std::string> cells) {
  for (const std::string& cell : cells) first += pad_left(cell, 12);
  return first + "\n";
}

std::string slowest_text(const JobTrace& trace, const Totals& totals) {
  std::uint64_t longest = 0;
  for (const RankTotals& rank : totals.ranks) longest = std::max(longest, rank.caused);
  if (longest == 0) return totals.are_partial ? "it is not known which ranks have waited for which others" : "no rank waited for another one";
  const std::vector<std::size_t> slowest = totals.slowest();
  if (slowest.empty()) return "no rank stands out: all waited for each other alike";
  std::vector<std::string> names;
  std::uint64_t caused = 0, last = 0;
  for (const std::size_t i : slowest) {
    names.push_back(trace.ranks[i].name);
    caused += totals.ranks[i].caused;
    last += totals.ranks[i].last;
  }
  const bool is_one = names.size() == 1;
  if (names.size() > most_named) names.resize(most_named);
  return fmt::format("rank{} {}{} {} the slowest: the others waited {} for {} in sum, and {} came last to {} of {} calls of the largest group",
                     is_one ? "" : "s", fmt::join(names, ", "), names.size() < slowest.size() ? ", …" : "", is_one ? "is" : "are", time_text(caused),
                     is_one ? "it" : "them", is_one ? "it" : "they", last, totals.steps);
}

std::string table_of_ranks(const JobTrace& trace, const Totals& totals) {
  std::vector<std::size_t> shown(totals.ranks.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  std::string note;
  if (shown.size() > most_rows) {
    std::ranges::partial_sort(shown, shown.begin() + most_rows, std::greater<>{}, [&](std::size_t i) { return totals.ranks[i].caused; });
    shown.resize(most_rows);
    note = fmt::format("  the {} ranks for which the others waited longest, of {}\n", most_rows, totals.ranks.size());
  }
  std::string text = note + row_of(pad_left("rank", 6), {"computing", "waiting", "moving", "waited for", "calls", "bytes"});
  for (const std::size_t i : shown) {
    const RankTotals& rank = totals.ranks[i];
    text += row_of(pad_left(trace.ranks[i].name, 6),
                   {part_text(rank.computing(), rank.span), part_text(rank.waiting, rank.span), part_text(rank.moving(), rank.span),
                    time_text(rank.caused), std::to_string(rank.calls), amount_text(rank.bytes)});
  }
  return text;
}

/// The moments of a rank that have been counted: calls of its program may lie in each other, as the two of a send_recv do.
class Counted {
 public:
  /// Returns how much of it was not counted before. The beginnings ascend.
  std::uint64_t add(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t from = std::max(begin, until_);
    until_ = std::max(until_, end);
    return end - std::min(from, end);
  }

 private:
  std::uint64_t until_ = 0;
};

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

std::vector<std::size_t> Totals::slowest() const {
  std::vector<double> waits;
  std::uint64_t least = UINT64_MAX;
  for (const RankTotals& rank : ranks) {
    waits.push_back(rank.span == 0 ? 0 : static_cast<double>(rank.waiting) / static_cast<double>(rank.span));
    least = std::min(least, rank.calls);
  }
  return launcher::slowest_of(waits, least);
}

Totals totals_of(const JobTrace& trace, const Merge& merge) {
  Totals totals;
  totals.ranks.resize(trace.ranks.size());
  totals.are_partial = merge.has_unmatched();
  const auto of_rank = [&](int number) -> RankTotals* {
    const TracedRank* const rank = trace.find(number);
    return rank == nullptr ? nullptr : &totals.ranks[static_cast<std::size_t>(rank - trace.ranks.data())];
  };
  for (std::size_t i = 0; i < trace.ranks.size(); ++i) totals.ranks[i].span = trace.ranks[i].to - trace.ranks[i].from;
  std::vector<Counted> in_calls(totals.ranks.size()), waiting(totals.ranks.size());
  merge.each([&](const Slice& slice) {
    RankTotals& own = totals.ranks[slice.rank];
    const std::uint64_t time = slice.end - slice.begin;
    if (slice.row != Slice::Row::beside) {
      own.in_calls += in_calls[slice.rank].add(slice.begin, slice.end);
      own.waiting += waiting[slice.rank].add(slice.begin, slice.begin + slice.waited);
    }
    if (slice.row == Slice::Row::program_wait) return;
    if (RankTotals* const late = of_rank(slice.waited_for)) late->caused += slice.waited;
    if (slice.group == 0) return;
    ++own.calls;
    ++totals.calls;
    own.bytes += slice.call->bytes;
    OperationTotals& operation = totals.operations[trace.ranks[slice.rank].reader->operation(*slice.call)];
    ++operation.calls;
    operation.bytes += slice.call->bytes;
    operation.time += time;
    operation.waiting += slice.waited;
  });
  merge.each_step([&](const Meeting& meeting) {
    ++totals.steps;
    if (RankTotals* const late = of_rank(meeting.last_rank)) ++late->last;
  });
  return totals;
}

std::vector<std::string> clock_texts(const JobTrace& trace) {
  std::vector<std::string> texts;
  for (std::size_t i = 1; i < trace.clocks.size(); ++i) {
    const HostClock& clock = trace.clocks[i];
    texts.push_back(clock.is_measured
                        ? fmt::format("the clock of {} is aligned by the calls themselves, within {}", clock.host, time_text(clock.uncertainty_ns))
                        : fmt::format("the clock of {} is taken as its host has set it: no call shows how far it is off", clock.host));
  }
  return texts;
}

std::string lost_text(const JobTrace& trace, const Totals& totals) {
  if (trace.lost == 0) return {};
  return fmt::format("the first {} calls are lost: a trace keeps the last {}, or the disk was full{}", trace.lost, recorder::calls_of_trace,
                     totals.are_partial ? "; calls of groups in which messages were sent as well are not matched" : "");
}

std::string latecomers_text(const JobTrace& trace) {
  std::vector<std::string> names;
  for (const TracedRank& rank : trace.ranks) {
    if (rank.restarts > 0) names.push_back(rank.name);
  }
  if (names.empty()) return {};
  const std::string more = names.size() > most_named ? ", …" : "";
  const std::string came =
      names.size() == 1 ? "1 process came while the job ran: rank" : fmt::format("{} processes came while the job ran: ranks", names.size());
  names.resize(std::min(names.size(), most_named));
  return fmt::format("{} {}{}", came, fmt::join(names, ", "), more);
}

std::vector<std::string> verdict_of(const JobTrace& trace, const Totals& totals) {
  std::vector<std::string> sentences;
  for (const launcher::Delay& delay : standstill_of(trace)) {
    sentences.push_back(delay.text);
    if (!delay.advice.empty()) sentences.push_back("→ " + delay.advice);
  }
  if (sentences.empty()) sentences.push_back(slowest_text(trace, totals));
  return sentences;
}

std::string trace_text(const JobTrace& trace, const Totals& totals) {
  std::string text = fmt::format("job {}: {}\n", trace.name, trace.program);
  const auto add = [&](const std::string& sentence) { text.append("  ").append(wrap(sentence, 4, 2)).append("\n"); };
  add(fmt::format("{} of {} on {}, {}, {}", trace.places(), counted(static_cast<std::size_t>(trace.size), "rank"),
                  counted(trace.clocks.size(), "host"), time_text(trace.span), counted(totals.calls, "call")));
  if (const std::string latecomers = latecomers_text(trace); !latecomers.empty()) add(latecomers);
  if (const std::string lost = lost_text(trace, totals); !lost.empty()) add(lost);
  for (const std::string& clock : clock_texts(trace)) add(clock);
  for (const std::string& sentence : verdict_of(trace, totals)) add(sentence);
  text.append("\n").append(table_of_ranks(trace, totals)).append("\n");
  const auto add_row = [&](std::string_view name, std::initializer_list<std::string> cells) {
    text += row_of("  " + pad_right(name, name_width), cells);
  };
  add_row("operation", {"calls", "bytes", "time", "waiting"});
  for (const auto& [name, operation] : totals.operations)
    add_row(name, {std::to_string(operation.calls), amount_text(operation.bytes), time_text(operation.time), time_text(operation.waiting)});
  return text;
}

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
