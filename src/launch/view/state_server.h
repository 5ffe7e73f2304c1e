#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/thread.h"
#include "launch/process/poll_set.h"
#include "launch/view/job_view.h"

namespace unisono::launcher {

/// Tells other processes of this user on this host what the ranks of a job do, on all of its hosts. The system says on both sides whose process the
/// other one is; nothing is read from who asks.
class StateServer {
 public:
  /// `look`: called by a thread of this object, for each who asks.
  explicit StateServer(std::function<std::vector<JobSeen>()> look);
  ~StateServer();
  StateServer(const StateServer&) = delete;
  StateServer& operator=(const StateServer&) = delete;

 private:
  void serve();
  void answer(const base::FileDescriptor& asking);

  const std::function<std::vector<JobSeen>()> look_;
  base::FileDescriptor listening_;
  std::optional<Notifier> stop_;
  base::Thread thread_;
};

/// Returns what each of this user's launchers on this host says of its job. All are asked at once; those that do not answer within 5 s are left out.
std::vector<std::vector<JobSeen>> ask_launchers();
/// Connects with one launcher of this user: what it writes until it closes is for decode_hosts. Returns an empty descriptor where there is none.
base::FileDescriptor connect_to_launcher(pid_t launcher);

}  // namespace unisono::launcher
