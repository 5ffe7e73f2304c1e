#include "status/jobs.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/process.h"
#include "recorder/dump.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr double nanoseconds_per_second = 1e9;

}  // namespace

ProcessFacts facts_of(int pid, std::int64_t life) {
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

namespace {

/// Gathers the ranks of each job.
std::vector<JobFacts> jobs_of(std::vector<RankFacts> ranks) {
  std::map<std::string, JobFacts> jobs;
  for (RankFacts& rank : ranks) {
    const recorder::RankSeen& record = rank.record;
    const std::string name = record.job.empty() ? fmt::format("of process {}", record.pid) : record.job;
    JobFacts& job = jobs[name];
    job.name = name;
    job.is_copy = record.is_copy;
    job.size = std::max(job.size, record.size);
    job.began = job.ranks.empty() ? record.began : std::min(job.began, record.began);
    job.age_ns = std::max(job.age_ns, record.now - std::min(record.now, record.began));
    if (record.rank == 0 || job.program.empty()) job.program = record.program;
    job.ranks.push_back(std::move(rank));
  }
  std::vector<JobFacts> found;
  for (auto& [name, job] : jobs) {
    // The last attempt of a rank comes first, and the others go.
    std::ranges::sort(job.ranks, [](const RankFacts& a, const RankFacts& b) {
      return std::pair(a.record.rank, b.record.real_at_began) < std::pair(b.record.rank, a.record.real_at_began);
    });
    if (job.is_copy) {
      const auto earlier = std::ranges::unique(job.ranks, {}, [](const RankFacts& rank) { return rank.record.rank; });
      job.ranks.erase(earlier.begin(), earlier.end());
    }
    found.push_back(std::move(job));
  }
  std::ranges::stable_sort(found, {}, &JobFacts::began);
  return found;
}

}  // namespace

std::vector<JobFacts> find_jobs() {
  std::vector<RankFacts> ranks;
  for (const auto& reader : recorder::find_records()) {
    RankFacts rank{.record = reader->read(), .process = {}};
    if (rank.record.rank < 0) continue;  // it has joined nothing yet
    rank.process = facts_of(rank.record.pid, rank.record.life);
    const auto age = static_cast<double>(rank.record.now - std::min(rank.record.now, rank.record.began));
    if (age > 0) rank.process.cpu_share = rank.process.cpu_seconds / (age / nanoseconds_per_second);
    ranks.push_back(std::move(rank));
  }
  return jobs_of(std::move(ranks));
}

std::vector<JobFacts> read_jobs(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    for (const auto& file : std::filesystem::directory_iterator(path, error)) {
      if (file.path().native().ends_with(recorder::file_ending)) files.push_back(file.path());
    }
  } else {
    files.push_back(path);
  }
  std::vector<RankFacts> ranks;
  for (const std::string& file : files) {
    const auto reader = recorder::RecordReader::open_copy(file);
    if (!reader) throw InvalidArgument(file + " is no record of a rank, or one of another version of unisono");
    RankFacts rank{.record = reader->read(), .process = {}};
    rank.process.lives = rank.record.state != recorder::RankState::ended;
    ranks.push_back(std::move(rank));
  }
  if (ranks.empty()) throw InvalidArgument("there are no records of ranks in " + path);
  return jobs_of(std::move(ranks));
}

void count_cpu_since(const std::vector<JobFacts>& earlier, std::vector<JobFacts>& now) {
  std::map<std::pair<int, std::int64_t>, const RankFacts*> before;
  for (const JobFacts& job : earlier) {
    for (const RankFacts& rank : job.ranks) before[{rank.record.pid, rank.record.life}] = &rank;
  }
  for (JobFacts& job : now) {
    for (RankFacts& rank : job.ranks) {
      const auto known = before.find({rank.record.pid, rank.record.life});
      if (known == before.end() || rank.record.now <= known->second->record.now) continue;
      const double passed = static_cast<double>(rank.record.now - known->second->record.now) / nanoseconds_per_second;
      rank.process.cpu_share = std::max(0.0, rank.process.cpu_seconds - known->second->process.cpu_seconds) / passed;
    }
  }
}

}  // namespace unisono::tools
