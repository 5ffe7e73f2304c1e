#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread.h"
#include "launch/hosts/job_hosts.h"
#include "launch/view/job_view.h"
#include "unisono/store.h"

namespace unisono::launcher {

/// Has each launcher of a job of several hosts tell the others what its ranks do, when one of them asks, through the launchers' store: whose
/// connections are authenticated. Only what was asked for travels.
class NodeStates {
 public:
  /// `look`: called by a thread of this object. Once the store is lost, nothing is told any more.
  NodeStates(std::shared_ptr<Store> store, int node, const HostRoster& hosts, std::function<JobSeen()> look);
  /// The store's connection must have ended: the thread waits in it.
  ~NodeStates() = default;

  /// Returns what the ranks of the other hosts do, of those that answer within a time. Any thread may call it.
  std::vector<JobSeen> of_others();

 private:
  void answer();
  std::int64_t newest();
  void answer_once(std::int64_t number);
  std::string key(std::int64_t number, const std::string& what) const;

  const std::shared_ptr<Store> store_;
  const int node_;
  const HostRoster& hosts_;
  const std::function<JobSeen()> look_;
  base::Thread answering_;
};

}  // namespace unisono::launcher
