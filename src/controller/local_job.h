#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/environment.h"
#include "base/thread.h"
#include "unisono/context.h"
#include "unisono/detail/remote_call.h"

namespace unisono::controller {

/// Processes that are forked from this one and serve as the workers of a job whose rank 0 is this process. A launcher in a thread of this process
/// watches them to their end; if this process ends before, they end with it.
class LocalJob {
 public:
  /// Starts them. `serve`: what each does, from its beginning to its end, in the context of its rank; returns its exit code.
  ///
  /// @throws InvalidArgument, NotInitialized, AlreadyInitialized where no processes can be started
  /// @throws LaunchFailed if the system refuses
  LocalJob(const ControllerOptions& options, std::function<int()> serve);
  /// Waits for their ends. Those that take longer than a while are killed.
  ~LocalJob();
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  /// Returns how this process joins the job, as rank 0.
  InitOptions init_options() const;
  /// The controller and its workers have met: from now on the workers learn of its end by themselves.
  void note_met() { has_met_ = true; }

 private:
  void run(const ControllerOptions& options, const std::function<int()>& serve);
  void kill_late() noexcept;

  const ControllerOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<base::Environment> variables_;  ///< that lead to the launcher's store; set once the processes have been started
  std::vector<pid_t> pids_;
  std::exception_ptr failure_;  ///< why they were not
  bool is_over_ = false, has_met_ = false;
  base::Thread launcher_;
};

}  // namespace unisono::controller
