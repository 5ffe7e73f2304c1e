#pragma once

#include "base/thread.h"
#include "launch/hosts/attempt_reports.h"
#include "launch/hosts/host_changes.h"
#include "launch/hosts/host_meeting.h"
#include "launch/hosts/silence_watch.h"

namespace unisono::launcher {

/// Writes again and again that this launcher lives, with its reports, and looks whether the others do. The end of a launcher's connection shows its
/// death; silence shows that it is cut off.
class Heartbeat {
 public:
  Heartbeat(const HostMeeting& meeting, AttemptReports& reports, HostChanges& changes);
  /// The reports must have been stopped, and the store's connection ended.
  void join() { thread_.join(); }

 private:
  void beat();
  void look_for_the_silent(SilenceWatch& others);

  const HostMeeting& meeting_;
  AttemptReports& reports_;
  HostChanges& changes_;
  base::Thread thread_;
};

}  // namespace unisono::launcher
