#include "trace/job_trace.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "recorder/trace_file.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

/// Returns the job's name in the name of a file that a launcher has made, "JOB.RANK.ATTEMPT.trace": that is the same on all hosts. Else the rank's.
std::string job_of(const std::filesystem::path& file, const recorder::RankSeen& about) {
  const std::string stem = file.stem().native();
  const auto attempt = stem.rfind('.');
  const std::string before = attempt == std::string::npos ? "" : stem.substr(0, attempt);
  const std::string rank = fmt::format(".{}", about.rank);
  return before.ends_with(rank) ? before.substr(0, before.size() - rank.size()) : about.job;
}

std::vector<TracedRank> read_folder(const std::string& folder) {
  std::vector<TracedRank> ranks;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = file.path().native();
    if (!path.ends_with(recorder::trace_ending)) continue;
    TracedRank rank;
    rank.reader = recorder::TraceReader::open(path);
    if (!rank.reader) continue;  // of a rank that has made no call of the library, or of another version
    rank.about = rank.reader->about();
    if (rank.about.rank < 0) continue;
    rank.about.job = job_of(file.path(), rank.about);
    ranks.push_back(std::move(rank));
  }
  if (error) throw InvalidArgument(fmt::format("the folder {} cannot be read: {}", folder, error.message()));
  return ranks;
}

/// Takes the ranks of one job, and of each rank the last attempt.
std::vector<TracedRank> of_one_job(std::vector<TracedRank> all, const std::string& folder, const std::string& job) {
  std::set<std::string> jobs;
  for (const TracedRank& rank : all) jobs.insert(rank.about.job);
  if (!job.empty()) std::erase_if(all, [&](const TracedRank& rank) { return rank.about.job != job; });
  if (all.empty()) {
    const std::string which = job.empty() ? "no trace of a rank" : fmt::format("no trace of job {}", job);
    throw InvalidArgument(fmt::format("there is {} in {}", which, folder), {.hint = "`unisono run --trace FOLDER` writes them"});
  }
  if (job.empty() && jobs.size() > 1)
    throw InvalidArgument(fmt::format("there are traces of {} jobs in {}: {}", jobs.size(), folder, fmt::join(jobs, ", ")),
                          {.hint = "--job names one"});
  std::ranges::sort(all, [](const TracedRank& a, const TracedRank& b) {
    return std::pair(a.about.rank, b.about.real_at_began) < std::pair(b.about.rank, a.about.real_at_began);
  });
  const auto earlier = std::ranges::unique(all, {}, [](const TracedRank& rank) { return rank.about.rank; });
  all.erase(earlier.begin(), earlier.end());
  return all;
}

std::uint64_t real_shift(const TracedRank& rank) { return rank.about.real_at_began - rank.about.began; }

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

const TracedRank* JobTrace::find(int rank) const {
  const auto found = std::ranges::lower_bound(ranks, rank, {}, [](const TracedRank& each) { return each.about.rank; });
  return found == ranks.end() || found->about.rank != rank ? nullptr : &*found;
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
  trace.ranks = of_one_job(read_folder(folder), folder, job);
  const TracedRank& first = trace.ranks.front();
  trace.name = first.about.job;
  trace.program = first.about.program;
  std::map<std::pair<std::string, int>, std::size_t> hosts;
  for (TracedRank& rank : trace.ranks) {
    trace.size = std::max(trace.size, rank.about.size);
    trace.lost += rank.reader->lost();
    const auto [host, is_new] = hosts.try_emplace({rank.about.host, rank.about.node}, trace.clocks.size());
    rank.host = host->second;
    if (is_new) trace.clocks.push_back({.host = rank.about.host, .knots = {{.at = 0, .shift = wrapped(real_shift(rank) - real_shift(first))}}});
  }
  // On one host all ranks have one clock.
  trace.clocks.front().knots.front().shift = 0;
  trace.clocks.front().is_measured = true;
  set_origin(trace);
  return trace;
}

}  // namespace unisono::tools
