#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/deadline.h"
#include "context/job.h"
#include "rendezvous/rendezvous.h"
#include "unisono/store.h"

namespace unisono::context {

/// The end of this process's part in the job's store, which lives as long as this object. A process that serves the store keeps it until the other
/// ranks have said that they no longer need it.
class Goodbye {
 public:
  Goodbye() = default;  ///< nobody waits for it
  Goodbye(const rendezvous::JobIdentity& identity, const Terms& terms);

  /// Says goodbye, or waits for that of the others. `look` throws where one of these ranks, which have not said theirs, is dead.
  void say(const base::Deadline& deadline, const std::function<void(std::span<const int> others)>& look) const;
  /// Tells the store, within that time, that this process is done with the job.
  void leave_job(std::chrono::milliseconds at_most) const { leave_job_(at_most); }

 private:
  std::shared_ptr<Store> store_;
  int rank_ = 0, world_size_ = 1;
  std::string key_;            // under which ranks say that they are done; empty if nobody waits for it
  bool serves_store_ = false;  // true if other ranks need this process for the store
  std::function<void(std::chrono::milliseconds at_most)> leave_job_ = [](std::chrono::milliseconds) {};
};

/// Returns the prefix of a world's keys in the job's store.
std::string world_prefix(const rendezvous::JobIdentity& identity);

}  // namespace unisono::context
