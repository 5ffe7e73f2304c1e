#include "status/other_hosts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "launch/view/state_server.h"

namespace unisono::tools {
namespace {

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

}  // namespace

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

void add_other_hosts(std::vector<JobFacts>& jobs) {
  for (const auto& hosts : launcher::ask_launchers()) add_hosts(jobs, hosts);
}

}  // namespace unisono::tools
