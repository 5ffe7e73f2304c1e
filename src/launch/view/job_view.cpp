#include "launch/view/job_view.h"

#include <algorithm>
#include <utility>

#include "base/host.h"

namespace unisono::launcher {
JobView::JobView(std::string job, int node, int world_size) : job_(std::move(job)), host_(base::host_name()), node_(node), world_size_(world_size) {}

void JobView::begin_attempt(int number) {
  const std::lock_guard lock(mutex_);
  attempt_ = number;
  ranks_.clear();
}

void JobView::add(int rank, int pid, std::shared_ptr<const base::FileDescriptor> record) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranks_, [&](const Rank& other) { return other.rank == rank; });
  const auto behind = std::ranges::find_if(ranks_, [&](const Rank& other) { return other.rank > rank; });
  ranks_.insert(behind, {.rank = rank, .pid = pid, .record = std::move(record), .reader = nullptr});
}

RankFacts JobView::look_at(Rank& rank, std::size_t calls) {
  if (!rank.reader && rank.record && *rank.record) rank.reader = recorder::RecordReader::open(*rank.record);
  if (rank.reader) {
    if (recorder::RankSeen seen = rank.reader->read(calls); seen.rank >= 0) return facts_of(std::move(seen));
  }
  RankFacts facts{.process = process_facts(rank.pid, 0), .has_joined = false};
  facts.record.rank = rank.rank;
  facts.record.pid = rank.pid;
  return facts;
}

JobSeen JobView::look(std::size_t calls) const {
  const std::lock_guard lock(mutex_);
  JobSeen seen{.job = job_, .host = host_, .node = node_, .world_size = world_size_, .restarts = attempt_, .ranks = {}};
  for (Rank& rank : ranks_) seen.ranks.push_back(look_at(rank, calls));
  keep_last_generation(seen.ranks);
  return seen;
}

}  // namespace unisono::launcher
