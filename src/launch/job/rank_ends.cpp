#include "launch/job/rank_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/host.h"

namespace unisono::launcher {

using How = RankEnd::How;

namespace {

/// The last status of a rank may reach the store this much later than its death is seen.
constexpr std::chrono::milliseconds judgement_time{100};

}  // namespace

std::string how_of(const RankEnd& end) { return (end.how == How::exited ? "exit " : "signal ") + std::to_string(end.code); }

RankEnds::RankEnds(const JobOptions& options, const JobTerms& terms, RankProcesses& processes, RankStore& store)
    : processes_(processes),
      store_(store),
      is_elastic_(terms.least_ranks > 0),
      memory_events_(options.cgroup_folder, options.cgroup_period),
      told_(static_cast<std::size_t>(options.ranks)) {
  for (int rank = terms.first_rank; rank < terms.first_rank + options.ranks; ++rank) {
    const std::string number = std::to_string(rank);
    ends_.push_back({.rank = rank, .name = terms.is_late ? number + ".1" : number, .host = base::host_name()});
  }
}

void RankEnds::on_end(std::function<void(std::size_t)> ended, std::function<void(const RankEnd&)> failed) {
  ended_ = std::move(ended);
  failed_ = std::move(failed);
}

void RankEnds::replace(std::size_t index, std::string name, pid_t pid) {
  ends_[index] = {.rank = ends_[index].rank, .name = std::move(name), .pid = pid, .host = base::host_name()};
}

RankEnd RankEnds::end_of(std::size_t index, const RankProcesses::End& seen, std::optional<int> request) {
  RankEnd end = ends_[index];
  end.how = seen.how;
  end.code = seen.code;
  end.dumped_core = seen.dumped_core;
  end.is_taken = seen.is_taken;
  const bool is_signaled = end.how == How::signaled;
  end.ended_by_launcher = told_[index] || (request && is_signaled && end.code == *request);
  // The kernel may have killed the rank before the launcher's signal reached it.
  end.out_of_memory = is_signaled && end.code == SIGKILL && !are_killed_ && memory_events_.take_kill();
  if (end.out_of_memory) end.ended_by_launcher = false;
  end.order = deaths_++;
  return end;
}

void RankEnds::observe(std::optional<int> request) {
  for (std::size_t i = 0; i < size(); ++i) {
    const auto seen = processes_.take_end(i);
    if (!seen) continue;
    RankEnd& end = ends_[i];
    end = end_of(i, *seen, request);
    store_.note_end(end.name, how_of(end));
    ended_(i);
    end.status = store_.status_of(end.rank);
    if (end.failed()) {
      note_failure(end);
    } else if (has_not_finalized(end.status) && !end.ended_by_launcher) {
      suspects_.push_back(i);
      judgement_.emplace(judgement_time);
    }
  }
}

void RankEnds::note_failure(const RankEnd& end) {
  failure_.note(fmt::format("rank {} {}", end.rank, end.left_without_finalize ? "left without finalize" : end.describe()), end.rank);
  failed_(end);
}

void RankEnds::judge() {
  if (!judgement_ || !judgement_->passed()) return;
  judgement_.reset();
  for (const std::size_t i : suspects_) {
    RankEnd& end = ends_[i];
    end.status = store_.status_of(end.rank);
    if (!has_not_finalized(end.status) || !was_group_sound(end)) continue;
    end.left_without_finalize = true;
    note_failure(end);
  }
  suspects_.clear();
}

/// Tells whether the group of a rank that has ended had lost nobody before.
bool RankEnds::was_group_sound(const RankEnd& end) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const RankEnd& other = ends_[i];
    if (!other.failed() || other.order >= end.order || store_.status_of(other.rank).starts_with("poisoned")) continue;
    // The group that shrink_group has made is without those that were lost before.
    if (!is_elastic_ || end.status != "shrunk" || !(other.is_survived || is_left_out(i))) return false;
  }
  return true;
}

void RankEnds::wait_for(PollSet& set) const {
  memory_events_.wait_for(set);
  if (judgement_) set.wake_at(*judgement_);
}

void RankEnds::read_statuses() {
  for (RankEnd& end : ends_) end.status = store_.status_of(end.rank);
}

bool RankEnds::have_failed() const {
  return std::ranges::any_of(ends_, [](const RankEnd& end) { return end.failed() && !end.ended_by_launcher; });
}

bool RankEnds::is_outsider(std::size_t index) const {
  // The status of a rank on another host is known to that host's launcher only.
  return is_in_no_group(index) || (failure_.rank() && launcher::is_in_no_group(store_.status_of(*failure_.rank())));
}

bool RankEnds::has_ended_well(std::size_t index) const {
  const RankEnd& end = ends_[index];
  if (end.how != How::exited || end.failed() || is_left_out(index)) return false;
  return !has_not_finalized(end.status) && !end.status.starts_with("poisoned") && !end.status.starts_with("mismatch");
}

bool RankEnds::survivors_have_shrunk() const {
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string status = store_.status_of(ends_[i].rank);
    if (processes_.is_alive(i) && status != "shrunk" && status != "finalized") return false;
  }
  return true;
}

}  // namespace unisono::launcher
