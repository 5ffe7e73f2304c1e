#pragma once

#include <cstddef>
#include <string>

#include "launch/hosts/hosts.h"
#include "launch/job/placement.h"
#include "launch/job_options.h"
#include "launch/output/output.h"
#include "launch/process/child.h"
#include "launch/process/signals.h"
#include "launch/process/stdin_pump.h"
#include "launch/process/watchdog.h"
#include "launch/view/job_view.h"
#include "launch/view/status_line.h"

namespace unisono::launcher {

/// The parts that last as long as the job, across its attempts.
struct JobParts {
  const JobOptions& options;
  const Task& task;
  const std::string& job_id;
  const Placement& placement;
  const Watchdog& watchdog;
  Console& console;
  StdinPump& stdin_pump;
  SignalScope* signals;  ///< null if signals are not handled
  Hosts& hosts;
  const std::string& log_folder;  ///< the folder of this job; empty if there is none
  std::size_t descriptor_limit;
  JobView* view;            ///< null for a function
  StatusLine* status_line;  ///< null where none is shown

  const JobTerms& terms() const { return hosts.terms(); }
};

}  // namespace unisono::launcher
