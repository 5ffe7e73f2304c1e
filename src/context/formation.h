#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/store.h"

namespace unisono::context {

/// The time between knowing the members of a group and having it. A member that cannot go on says so, and one that dies is seen: those that wait for
/// it in `watched` throw PeerFailed instead of waiting on.
class Formation {
 public:
  struct Parts {
    std::string operation;  // as errors call it
    std::string group;      // its name; empty while there is no world
    int rank = 0, size = 1;
    std::vector<std::string> hosts = {};  // of the ranks, where they are known already
    std::shared_ptr<Store> store;         // the group's own part of the job's store
    bool serves_store = false;            // it ends with this process
    std::function<void()> look = [] {};   // throws if it is known, without that store, that one of them will not come
  };
  explicit Formation(Parts parts);
  ~Formation();
  Formation(const Formation&) = delete;
  Formation& operator=(const Formation&) = delete;

  /// The store as it is, and watched as long as this lives.
  const std::shared_ptr<Store>& store() const { return parts_.store; }
  const std::shared_ptr<Store>& watched() const { return watched_; }

  /// Tells the others why there will be no group. A rank that serves the store gives them a second to read it.
  void give_up(const std::exception_ptr& reason) noexcept;

 private:
  void look() const;

  Parts parts_;
  std::shared_ptr<Store> watched_;
  std::shared_ptr<std::atomic<const Formation*>> forming_ = std::make_shared<std::atomic<const Formation*>>(this);  // null once there is a group
};

}  // namespace unisono::context
