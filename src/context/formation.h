#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "unisono/store.h"

namespace unisono::context {

/// Covers the time between knowing the members of a group and having the group. A member that cannot go on writes its reason, and the death of a
/// member is noticed. Members that wait in `watched` then throw PeerFailed.
class Formation {
 public:
  struct Parts {
    std::string operation;  // the name in error messages
    std::string group;      // the group's name; empty while there is no world
    int rank = 0, size = 1;
    std::vector<std::string> hosts = {};  // by rank, where they are known already
    std::shared_ptr<Store> store;         // the group's own part of the job's store
    bool serves_store = false;            // true if the store ends with this process
    std::function<void()> look = [] {};   // throws if it is known, without the store, that a member will not come
  };
  explicit Formation(Parts parts);
  ~Formation();
  Formation(const Formation&) = delete;
  Formation& operator=(const Formation&) = delete;

  /// `store` is the plain store. `watched` is the same store, whose waits call `look` as long as this object lives.
  const std::shared_ptr<Store>& store() const { return parts_.store; }
  const std::shared_ptr<Store>& watched() const { return watched_; }

  /// Returns the loss of a member with what the one who noticed it does not know: the operation, the group, this rank, and the member's host. Other
  /// errors are returned as they are.
  std::exception_ptr explain(std::exception_ptr reason) const;
  /// Tells the others why there will be no group. A rank that serves the store gives them a second to read it.
  void give_up(const std::exception_ptr& reason) noexcept;

 private:
  void look() const;

  Parts parts_;
  std::shared_ptr<Store> watched_;
  std::shared_ptr<std::atomic<const Formation*>> forming_ = std::make_shared<std::atomic<const Formation*>>(this);  // null once there is a group
};

/// Lets the members of a group that has been formed either all have it, or none: a member that sees another die is not the only one to give it up.
///
/// Every member calls it once it has its part of the group. Returns when all have theirs. Throws on all members where one of them could not come:
/// what `explain` makes of the error that this member met, or PeerFailed with what another one has told.
void commit(Formation& formation, int size, const base::Deadline& deadline,
            const std::function<std::exception_ptr(const std::exception_ptr&)>& explain);

}  // namespace unisono::context
