#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "launch/api/outcome.h"
#include "launch/api/program_again.h"
#include "launch/job_options.h"
#include "unisono/launch.h"

namespace unisono::launcher {

/// The function of a rank as bytes leave it: its result, as an object.
using Body = std::function<detail::Bytes(int local_rank)>;

/// A job of processes that run a function of this program, from its checks to its results.
///
/// With StartMethod::fork a rank is the forked child. With StartMethod::exec the forked child runs the program again; there, the call that makes the
/// same job finds the Outcome that it has inherited, runs the function in place of a job, and ends the process.
class FunctionJob {
 public:
  /// Checks the options. Does not return in a process that is a rank of this job.
  FunctionJob(const SpawnOptions& options, const Body& body);
  /// Starts the processes and waits for their end. `started` is called when all have been started; `body` is not used afterwards.
  void run(const Body& body, const std::function<void()>& started = {});
  /// Returns what the functions returned, in rank order. Throws LaunchFailed where one of them has failed.
  std::vector<detail::Bytes> take_results();

 private:
  int be_rank(const base::Environment& environment, const Body& body);

  SpawnOptions options_;
  std::string place_;                    ///< where the ranks meet; empty: through the launcher
  std::optional<ProgramAgain> program_;  ///< with StartMethod::exec
  std::vector<Outcome> outcomes_;
  JobResult result_;
};

/// Throws where processes cannot be started here: those of a job within a job would take part in both.
void check_not_within_a_job(const char* operation);

/// Tells whether this process runs the program again as a rank, and has not come to its call yet.
bool runs_program_again();

}  // namespace unisono::launcher
