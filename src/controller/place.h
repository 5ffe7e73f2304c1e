#pragma once

#include <optional>
#include <vector>

#include "controller/meeting.h"
#include "unisono/error.h"
#include "unisono/process_group.h"

namespace unisono::controller {

/// What this process, or this thread of run_threads, is in the job of a controller, as long as the object lives. A program's own threads have the
/// place of their process.
class Place {
 public:
  /// `workers`: the world of the workers, on one of them.
  Place(const Roster& roster, ProcessGroup everyone, const std::optional<ProcessGroup>& workers = {});
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  /// Returns the number of the worker; -1: this is the controller.
  int worker() const { return worker_; }
  const ProcessGroup& everyone() const { return everyone_; }
  /// See detail::blamed_worker.
  int blamed_by(const ErrorInfo& error) const;
  /// Returns the place of the caller; null if there is none.
  static const Place* current() noexcept;

 private:
  const int worker_;
  const std::vector<int> rank_of_;  ///< by worker, in the world of the job
  const std::vector<int> living_;   ///< the workers, by their ranks in the world of the workers
  const ProcessGroup everyone_;
  const std::optional<ProcessGroup> workers_;
  const bool is_of_thread_;
};

}  // namespace unisono::controller
