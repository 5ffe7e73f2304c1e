#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "launch/hosts/hosts.h"
#include "launch/job/rank_processes.h"
#include "launch/job/rank_store.h"
#include "launch/job_options.h"
#include "launch/process/first_cause.h"
#include "launch/process/memory_events.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// Returns "exit 7" or "signal 9": what other ranks and launchers are told of an end.
std::string how_of(const RankEnd& end);

/// A failure to which the job has to respond.
class Failure {
 public:
  /// `text`: such as "rank 2 exited with code 1"; `rank`: if it is one of this host. Of several that nobody has taken, the first counts.
  void note(std::string text, std::optional<int> rank) {
    if (!std::exchange(is_new_, true)) replace(std::move(text), rank);
  }
  /// The job responds to this one, whatever there was before.
  void replace(std::string text, std::optional<int> rank) {
    text_ = std::move(text);
    rank_ = rank;
  }
  /// Returns true once after a failure.
  bool take() { return std::exchange(is_new_, false); }
  const std::string& text() const { return text_; }
  const std::optional<int>& rank() const { return rank_; }

 private:
  bool is_new_ = false;
  std::string text_;
  std::optional<int> rank_;
};

/// How each rank of one attempt has ended on this host, and whether it has failed by itself. A rank that ends with code 0 and has not finalized is a
/// suspect for a moment, because its last status may be on its way.
class RankEnds {
 public:
  RankEnds(const JobOptions& options, const JobTerms& terms, RankProcesses& processes, RankStore& store);
  /// `ended` is called for each process that is seen to end, before its status is read; `failed` for each that has failed.
  void on_end(std::function<void(std::size_t)> ended, std::function<void(const RankEnd&)> failed);

  const std::vector<RankEnd>& all() const { return ends_; }
  std::size_t size() const { return ends_.size(); }
  const RankEnd& operator[](std::size_t index) const { return ends_[index]; }
  RankEnd& at(std::size_t index) { return ends_[index]; }
  /// A process was started in this place.
  void replace(std::size_t index, std::string name, pid_t pid);

  /// Notes the ranks that have ended. `request`: the signal by which the job has just been asked to end. Slurm sends it to the ranks as well, and one
  /// that it has ended before its launcher saw it has not failed.
  void observe(std::optional<int> request = {});
  /// Decides on suspects when their time is over.
  void judge();
  bool is_judging() const { return judgement_.has_value(); }
  void wait_for(PollSet& set) const;
  /// Call it at the end of a round.
  void tick() { memory_events_.tick(); }
  /// Reads what the ranks have written last.
  void read_statuses();

  /// What ends from now on has not failed by itself.
  void note_told(std::size_t index) { told_[index] = true; }
  void note_all_told() { told_.assign(told_.size(), true); }
  void note_killed() { are_killed_ = true; }

  Failure& failure() { return failure_; }
  /// Tells whether a rank has failed by itself.
  bool have_failed() const;
  /// Tells whether no group tells this rank of the failure.
  bool is_outsider(std::size_t index) const;
  bool is_left_out(std::size_t index) const { return store_.is_left_out(ends_[index].name); }
  /// Tells whether the rank is in no group, by its status.
  bool is_in_no_group(std::size_t index) const { return launcher::is_in_no_group(store_.status_of(ends_[index].rank)); }
  bool has_ended_well(std::size_t index) const;
  /// Tells whether all ranks that live have shrunk their group or finalized.
  bool survivors_have_shrunk() const;

 private:
  RankEnd end_of(std::size_t index, const RankProcesses::End& seen, std::optional<int> request);
  void note_failure(const RankEnd& end);
  bool was_group_sound(const RankEnd& end) const;

  RankProcesses& processes_;
  RankStore& store_;
  const bool is_elastic_;
  MemoryEvents memory_events_;
  std::function<void(std::size_t)> ended_;
  std::function<void(const RankEnd&)> failed_;
  std::vector<RankEnd> ends_;
  int deaths_ = 0;
  std::vector<bool> told_;  ///< by place: to end
  bool are_killed_ = false;
  std::vector<std::size_t> suspects_;  ///< ended with code 0, but had not finalized by their last status
  std::optional<base::Deadline> judgement_;
  Failure failure_;
};

}  // namespace unisono::launcher
