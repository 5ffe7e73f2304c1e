// The files of a job's traces. A launcher names them "JOB.RANK.ATTEMPT.trace", or "JOB.RANK.RESTARTS.ATTEMPT.trace" where the process has come to a
// job that ran: in the place of that rank, or with a host that was late. Elsewhere each rank names its own file, which says nothing.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "recorder/trace_file.h"
#include "trace/job_trace.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

struct LauncherName {
  std::string job;
  int rank = -1, restarts = 0, attempt = 0;
};

struct FoundRank {
  TracedRank rank;
  std::optional<int> attempt;  // where the launcher has named the file
};

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size() && text.front() != '-';
  return is_whole ? std::optional(number) : std::nullopt;
}

/// The name of a job has no dot.
std::optional<LauncherName> parse(const std::string& stem) {
  std::vector<int> numbers;
  const auto dot = stem.find('.');
  for (std::size_t begin = dot; begin != std::string::npos;) {
    const std::size_t end = stem.find('.', ++begin);
    const auto number = number_in(std::string_view(stem).substr(begin, end - begin));
    if (!number) return std::nullopt;
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
