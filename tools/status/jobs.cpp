#include "status/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "launch/view/state_server.h"
#include "recorder/dump.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr double nanoseconds_per_second = 1e9;

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
    } else {
      launcher::keep_last_generation(job.ranks);
    }
    found.push_back(std::move(job));
  }
  std::ranges::stable_sort(found, {}, &JobFacts::began);
  return found;
}

int rank_of(const RankFacts& rank) { return rank.record.rank; }

/// Puts the parts of a job together that this host sees as several, because each launcher has an identity of its own: launchers of two nodes on one
/// host.
JobFacts& joined(std::vector<JobFacts>& jobs, const std::vector<launcher::JobSeen>& hosts) {
  const auto is_part = [&](const JobFacts& job) { return std::ranges::find(hosts, job.name, &launcher::JobSeen::job) != hosts.end(); };
  auto first = std::ranges::find_if(jobs, is_part);
  if (first == jobs.end()) return jobs.emplace_back(JobFacts{.name = hosts.front().job, .program = {}, .ranks = {}});
  for (auto other = first + 1; other != jobs.end();) {
    if (!is_part(*other)) {
      ++other;
      continue;
    }
    first->began = std::min(first->began, other->began);
    first->age_ns = std::max(first->age_ns, other->age_ns);
    std::ranges::move(other->ranks, std::back_inserter(first->ranks));
    other = jobs.erase(other);
  }
  return *first;
}

/// Adds the ranks of one job, as its launcher tells of them. Of a rank that is there already the own record stays.
void add_hosts(std::vector<JobFacts>& jobs, const std::vector<launcher::JobSeen>& hosts) {
  JobFacts& job = joined(jobs, hosts);
  const bool is_new = job.ranks.empty();
  for (const launcher::JobSeen& host : hosts) {
    job.size = std::max(job.size, host.world_size);
    for (const RankFacts& rank : host.ranks) {
      if (std::ranges::find(job.ranks, rank_of(rank), rank_of) != job.ranks.end()) continue;
      const recorder::RankSeen& record = rank.record;
      if (job.program.empty()) job.program = record.program;
      if (record.began != 0 && (is_new || job.ranks.empty())) job.began = job.began == 0 ? record.began : std::min(job.began, record.began);
      if (record.began != 0) job.age_ns = std::max(job.age_ns, record.now - record.began);
      job.ranks.push_back(rank);
    }
  }
  std::ranges::stable_sort(job.ranks, {}, rank_of);
}

}  // namespace

std::vector<JobFacts> find_jobs() {
  std::vector<RankFacts> ranks;
  for (const auto& reader : recorder::find_records()) {
    recorder::RankSeen record = reader->read();
    if (record.rank >= 0) ranks.push_back(launcher::facts_of(std::move(record)));  // else it has joined nothing yet
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
    const auto named = std::filesystem::canonical(path, error);  // a link that this user has named is followed
    files.push_back(error ? path : named.native());
  }
  std::vector<RankFacts> ranks;
  for (const std::string& file : files) {
    const auto reader = recorder::RecordReader::open_copy(file);
    if (!reader) throw InvalidArgument(base::printable(file) + " is not a record of a rank, or belongs to another version of unisono");
    RankFacts rank{.record = reader->read(), .process = {}};
    launcher::number_by_last_generation(rank.record);
    rank.process.lives = rank.record.state != recorder::RankState::ended;
    ranks.push_back(std::move(rank));
  }
  if (ranks.empty()) throw InvalidArgument("there are no records of ranks in " + path);
  return jobs_of(std::move(ranks));
}

void count_cpu_since(const std::vector<JobFacts>& earlier, std::vector<JobFacts>& now) {
  const auto key_of = [](const RankFacts& rank) { return std::tuple(rank.record.host, rank.record.pid, rank.record.life); };
  std::map<std::tuple<std::string, int, std::int64_t>, const RankFacts*> before;
  for (const JobFacts& job : earlier)
    for (const RankFacts& rank : job.ranks) before[key_of(rank)] = &rank;
  for (JobFacts& job : now) {
    for (RankFacts& rank : job.ranks) {
      const auto known = before.find(key_of(rank));
      if (known == before.end() || rank.record.now <= known->second->record.now) continue;
      const double passed = static_cast<double>(rank.record.now - known->second->record.now) / nanoseconds_per_second;
      rank.process.cpu_share = std::max(0.0, rank.process.cpu_seconds - known->second->process.cpu_seconds) / passed;
    }
  }
}

void add_other_hosts(std::vector<JobFacts>& jobs) {
  for (const auto& hosts : launcher::ask_launchers()) add_hosts(jobs, hosts);
}

}  // namespace unisono::tools
