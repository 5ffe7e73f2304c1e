#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "base/notifier.h"
#include "base/thread.h"
#include "unisono/call.h"
#include "unisono/engine.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// A thread that makes the blocking calls of an engine, one at a time, for asynchronous calls.
class BlockingCalls {
 public:
  /// `give_up` ends the group; it is called where a task is destroyed before its call is done. Throws Error where no thread can be started.
  BlockingCalls(base::Notifier* notifier, std::function<void()> give_up);
  ~BlockingCalls();
  /// Starts a call. The task must be destroyed before this object; if its call is not done by then, the group ends.
  std::unique_ptr<Task> run(std::shared_ptr<Engine> engine, const CollectiveCall& call);

 private:
  class Call;
  struct Shared;
  std::shared_ptr<Shared> shared_;
  base::Notifier* notifier_;
  std::function<void()> give_up_;
  pid_t process_;
  base::Thread thread_;
};

}  // namespace unisono::schedule
