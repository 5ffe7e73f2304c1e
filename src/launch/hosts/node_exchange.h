#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/thread.h"
#include "launch/process/poll_set.h"
#include "unisono/store.h"

namespace unisono::launcher {

/// Exchanges texts among the launchers of several hosts, while the loop of each goes on: threads wait for the others in the launchers' store.
class NodeExchange {
 public:
  /// `prefix`: of its keys, the same on all nodes and different from attempt to attempt.
  NodeExchange(std::shared_ptr<Store> store, std::string prefix, int node);
  /// Gives up what is under way.
  ~NodeExchange();
  NodeExchange(const NodeExchange&) = delete;
  NodeExchange& operator=(const NodeExchange&) = delete;

  using Done = std::function<void(const std::vector<std::string>& texts)>;
  /// Begins an exchange among `nodes`, of which this is one; all of them use the same name, and each name once. `done` gets their texts in the order
  /// of `nodes`; it is called by the loop. Nothing comes where the store is lost: the launchers end the job then.
  void begin(const std::string& name, const std::vector<int>& nodes, std::string own, Done done);
  void wait_for(PollSet& set);

 private:
  struct Exchange {
    Done done;
    std::vector<std::string> texts = {};
    bool is_complete = false;
    base::Thread thread = {};
  };
  void gather(Exchange& exchange, const std::string& name, const std::vector<int>& nodes, const std::string& own);
  void take();

  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  const int node_;
  base::FileDescriptor notifier_;
  std::mutex mutex_;  // guards what the threads write
  bool stop_ = false;
  std::list<Exchange> exchanges_;
};

}  // namespace unisono::launcher
