#pragma once

#include <memory>
#include <string>

#include "launch/supervisor.h"
#include "unisono/store.h"

namespace unisono::launcher {

/// The meeting of the launchers of several hosts in etcd, instead of at an address that all of them were given. There each gets its number, unless it
/// has one, and learns where host 0 serves the launchers' store. It stays until the job is over, so that a second job at the same place is refused.
class StoreMeeting {
 public:
  /// Waits for all launchers, and sets number, address and port of the options. Throws what rendezvous::join and the store throw.
  explicit StoreMeeting(JobOptions& options);
  ~StoreMeeting();
  StoreMeeting(const StoreMeeting&) = delete;
  StoreMeeting& operator=(const StoreMeeting&) = delete;

 private:
  std::shared_ptr<Store> store_;
  std::string seat_;
};

}  // namespace unisono::launcher
