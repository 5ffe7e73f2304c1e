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

/// A thread that is inside an engine's blocking calls, one at a time, on behalf of asynchronous ones.
class BlockingCalls {
 public:
  /// `give_up`: ends the group, where a call is let go that is still under way. Error where no thread can be started.
  BlockingCalls(base::Notifier* notifier, std::function<void()> give_up);
  ~BlockingCalls();
  /// The task must be let go before this object; if that happens before it is done, its group is over.
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
