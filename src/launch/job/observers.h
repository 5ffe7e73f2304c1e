#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/view/http_server.h"
#include "launch/view/job_view.h"
#include "launch/view/metrics.h"
#include "launch/view/state_server.h"
#include "launch/view/status_line.h"

namespace unisono::launcher {

struct JobOptions;
class Console;
class Hosts;

/// Those who look at a job while it runs: the server of metrics and the status line, as far as they were asked for, and in a job of several hosts
/// what `unisono status` asks. None of them asks the ranks anything.
class Observers {
 public:
  /// Says where the metrics are. Throws StartFailed where their port is in use. `job`: the identity of the job on this host.
  Observers(const JobOptions& options, const std::string& job, int world_size, Console& console, Hosts& hosts);

  /// Null where the ranks run a function: its children would have the descriptors of the others' records.
  JobView* view() { return view_.get(); }
  /// Null where none is shown.
  StatusLine* status_line() { return status_line_ ? &*status_line_ : nullptr; }

 private:
  std::vector<JobSeen> all_hosts(const Hosts& hosts) const;

  std::shared_ptr<JobView> view_;  ///< the thread that answers other hosts lasts longer than this object
  std::optional<Metrics> metrics_;
  std::optional<StatusLine> status_line_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<StateServer> state_server_;
};

}  // namespace unisono::launcher
