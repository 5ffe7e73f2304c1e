// The files of a job's traces. A launcher names them "JOB.RANK.ATTEMPT.trace", or "JOB.RANK.RESTARTS.ATTEMPT.trace" where the process has come to a
// job that ran: in the place of that rank, or with a host that was late. Elsewhere each rank names its own file, which says nothing.

#include "trace/job_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "common/text.h"
#include "recorder/trace_file.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

std::uint64_t real_shift(const TracedRank& rank) { return rank.about.real_at_began - rank.about.began; }

/// Returns what tells a rank's host from others. Hosts are numbered anew in each generation: a process that came later is where those before it were.
std::pair<std::string, int> host_of(const JobTrace& trace, const TracedRank& rank) {
  if (rank.restarts == 0) return {rank.about.host, rank.about.node};
  const auto of_start = [&](const TracedRank& other) { return other.restarts == 0 && other.place == rank.place; };
  const auto beside = [&](const TracedRank& other) {
    constexpr unsigned namespace_bits = 32;
    return other.about.host == rank.about.host && other.about.life >> namespace_bits == rank.about.life >> namespace_bits;
  };
  auto same = std::ranges::find_if(trace.ranks, of_start);
  if (same == trace.ranks.end()) same = std::ranges::find_if(trace.ranks, [&](const auto& other) { return other.restarts == 0 && beside(other); });
  if (same == trace.ranks.end()) same = std::ranges::find_if(trace.ranks, beside);
  return {same->about.host, same->about.node};
}

/// Gives each process its name and number.
void name_ranks(JobTrace& trace) {
  std::int64_t highest = 0;
  for (const TracedRank& rank : trace.ranks) highest = std::max({highest, std::int64_t{rank.place}, std::int64_t{rank.about.size} - 1});
  const std::int64_t most = std::numeric_limits<int>::max() - static_cast<std::int64_t>(trace.ranks.size());
  int next = static_cast<int>(std::min(highest + 1, most));
  for (std::size_t i = 0; i < trace.ranks.size(); ++i) {
    TracedRank& rank = trace.ranks[i];
    rank.number = rank.restarts == 0 ? rank.place : next++;
    rank.name = rank.restarts == 0 ? fmt::format("{}", rank.place) : fmt::format("{}.{}", rank.place, rank.restarts);
    rank.groups = rank.reader->groups();
    trace.indices.emplace(rank.number, i);
    for (const recorder::GroupSeen& group : rank.groups) {
      if (group.generation > 1) trace.numbers.try_emplace({group.generation, group.own_rank}, rank.number);
    }
  }
}

struct LauncherName {
  std::string job;
  int rank = -1, restarts = 0, attempt = 0;
};

struct FoundRank {
  TracedRank rank;
  std::optional<int> attempt;  // where the launcher has named the file
};

/// The name of a job has no dot.
std::optional<LauncherName> parse(const std::string& stem) {
  std::vector<int> numbers;
  const auto dot = stem.find('.');
  for (std::size_t begin = dot; begin != std::string::npos;) {
    const std::size_t end = stem.find('.', ++begin);
    const auto number = parse_number<int>(std::string_view(stem).substr(begin, end - begin));
    if (!number || *number < 0) return std::nullopt;
    numbers.push_back(*number);
    begin = end;
  }
  if (dot == 0 || numbers.size() < 2 || numbers.size() > 3) return std::nullopt;
  return LauncherName{.job = stem.substr(0, dot), .rank = numbers[0], .restarts = numbers.size() == 3 ? numbers[1] : 0, .attempt = numbers.back()};
}

FoundRank found_in(const std::filesystem::path& file, std::unique_ptr<recorder::TraceReader> reader) {
  FoundRank found;
  found.rank.reader = std::move(reader);
  recorder::RankSeen& about = found.rank.about = found.rank.reader->about();
  found.rank.place = about.rank;
  const auto name = parse(file.stem().native());
  // A program may give its ranks other numbers than the launcher.
  if (!name || (name->restarts == 0 && name->rank != about.rank)) return found;
  about.job = base::printable(name->job);  // the same on all hosts
  found.rank.place = name->rank;
  found.rank.restarts = name->restarts;
  found.attempt = name->attempt;
  return found;
}

std::vector<FoundRank> read_folder(const std::string& folder) {
  std::vector<FoundRank> ranks;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = file.path().native();
    if (!path.ends_with(recorder::trace_ending)) continue;
    auto reader = recorder::TraceReader::open(path);
    if (!reader) continue;  // of a rank that has made no call of the library, or of another version
    FoundRank found = found_in(file.path(), std::move(reader));
    if (found.rank.about.rank >= 0) ranks.push_back(std::move(found));
  }
  if (error) throw InvalidArgument(fmt::format("the folder {} cannot be read: {}", folder, error.message()));
  return ranks;
}

}  // namespace

std::int64_t whole_ns(double ns) {
  constexpr double most = 9.2e18;
  return std::isnan(ns) ? 0 : static_cast<std::int64_t>(std::clamp(ns, -most, most));
}

std::int64_t HostClock::shift_at(std::uint64_t steady) const {
  const auto after = std::ranges::upper_bound(knots, steady, {}, &Knot::at);
  if (after == knots.begin()) return knots.front().shift;
  const Knot& before = *std::prev(after);
  if (after == knots.end()) return before.shift;
  const double part = static_cast<double>(steady - before.at) / static_cast<double>(after->at - before.at);
  const double change = static_cast<double>(after->shift) - static_cast<double>(before.shift);
  return wrapped(static_cast<std::uint64_t>(before.shift) + static_cast<std::uint64_t>(whole_ns(part * change)));
}

std::uint64_t JobTrace::time_of(const TracedRank& rank, std::uint64_t steady) const {
  const std::int64_t time = wrapped(steady + static_cast<std::uint64_t>(clocks[rank.host].shift_at(steady)) - origin);
  return time < 0 ? 0 : static_cast<std::uint64_t>(time);
}

const TracedRank* JobTrace::find(int number) const {
  const auto found = indices.find(number);
  return found == indices.end() ? nullptr : &ranks[found->second];
}

const TracedRank* JobTrace::last_of(int place) const {
  const auto behind = std::ranges::upper_bound(ranks, place, {}, &TracedRank::place);
  return behind == ranks.begin() || std::prev(behind)->place != place ? nullptr : &*std::prev(behind);
}

// In the first generation the ranks are the places.
int JobTrace::number_of(int generation, int rank) const {
  if (generation <= 1 || rank < 0) return rank;
  const auto found = numbers.find({generation, rank});
  return found == numbers.end() ? -1 : found->second;
}

std::string JobTrace::name_of(int number) const {
  const TracedRank* const rank = find(number);
  return rank == nullptr ? std::to_string(number) : rank->name;
}

int JobTrace::places() const {
  int places = 0, last = -1;
  for (const TracedRank& rank : ranks) {
    if (places == 0 || rank.place != last) ++places;
    last = rank.place;
  }
  return places;
}

// Of more groups than a trace names it has the first ones.
int TracedRank::generation_of(std::uint16_t group) const {
  const auto behind = std::ranges::upper_bound(groups, group, {}, &recorder::GroupSeen::number);
  return behind == groups.begin() ? 0 : std::prev(behind)->generation;
}

int TracedRank::rank_in(int generation) const {
  if (generation == 0) return about.rank;
  if (generation == 1) return restarts == 0 ? about.rank : -1;
  const auto found = std::ranges::find(groups, generation, &recorder::GroupSeen::generation);
  return found == groups.end() ? -1 : found->own_rank;
}

void set_origin(JobTrace& trace) {
  trace.origin = 0;
  std::uint64_t origin = UINT64_MAX, end = 0;
  for (TracedRank& rank : trace.ranks) {
    std::uint64_t first = UINT64_MAX, last = std::max(rank.about.now, rank.about.began);
    rank.reader->each([&](const recorder::TracedCall& call) {
      first = std::min(first, call.begun);
      last = std::max({last, call.done, call.begun});
    });
    // What a rank did before the first call that is left is not known.
    rank.from = trace.time_of(rank, rank.reader->lost() == 0 || first == UINT64_MAX ? rank.about.began : first);
    rank.to = trace.time_of(rank, last);
    origin = std::min(origin, rank.from);
    end = std::max(end, rank.to);
  }
  for (TracedRank& rank : trace.ranks) {
    rank.from -= origin;
    rank.to -= origin;
  }
  trace.origin = origin;
  trace.span = end - origin;
  const recorder::RankSeen& reference = trace.ranks.front().about;
  trace.real_origin = reference.real_at_began + (origin - reference.began);
}

JobTrace open_traces(const std::string& folder, const std::string& job) {
  JobTrace trace;
  trace.ranks = read_ranks(folder, job);
  name_ranks(trace);
  const TracedRank& first = trace.ranks.front();
  trace.name = first.about.job;
  trace.program = first.about.program;
  std::map<std::pair<std::string, int>, std::size_t> hosts;
  for (TracedRank& rank : trace.ranks) {
    trace.size = std::max(trace.size, rank.about.size);
    trace.lost += rank.reader->lost();
    const auto [host, is_new] = hosts.try_emplace(host_of(trace, rank), trace.clocks.size());
    rank.host = host->second;
    if (is_new) trace.clocks.push_back({.host = rank.about.host, .knots = {{.at = 0, .shift = wrapped(real_shift(rank) - real_shift(first))}}});
  }
  trace.size = std::max(trace.size, trace.places());  // hosts may come and go, so that no world had all of them
  // On one host all ranks have one clock.
  trace.clocks.front().knots.front().shift = 0;
  trace.clocks.front().is_measured = true;
  set_origin(trace);
  return trace;
}

std::vector<TracedRank> read_ranks(const std::string& folder, const std::string& job) {
  std::vector<FoundRank> all = read_folder(folder);
  std::set<std::string> jobs;
  for (const FoundRank& found : all) jobs.insert(found.rank.about.job);
  if (!job.empty()) std::erase_if(all, [&](const FoundRank& found) { return found.rank.about.job != job; });
  if (all.empty()) {
    const std::string which = job.empty() ? "no trace of a rank" : fmt::format("no trace of job {}", job);
    throw InvalidArgument(fmt::format("there is {} in {}", which, folder), {.hint = "`unisono run --trace FOLDER` writes them"});
  }
  if (job.empty() && jobs.size() > 1)
    throw InvalidArgument(fmt::format("there are traces of {} jobs in {}: {}", jobs.size(), folder, fmt::join(jobs, ", ")),
                          {.hint = "--job names one"});
  const auto last = std::ranges::max_element(all, {}, &FoundRank::attempt)->attempt;
  std::erase_if(all, [&](const FoundRank& found) { return found.attempt && found.attempt != last; });
  std::vector<TracedRank> ranks;
  for (FoundRank& found : all) ranks.push_back(std::move(found.rank));
  // Where the files do not tell attempts apart, the last one comes first, and the others go.
  std::ranges::sort(ranks, [](const TracedRank& a, const TracedRank& b) {
    return std::tuple(a.place, a.restarts, b.about.real_at_began) < std::tuple(b.place, b.restarts, a.about.real_at_began);
  });
  const auto earlier = std::ranges::unique(ranks, {}, [](const TracedRank& rank) { return std::pair(rank.place, rank.restarts); });
  ranks.erase(earlier.begin(), earlier.end());
  return ranks;
}

}  // namespace unisono::tools
