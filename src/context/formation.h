#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/repeated_texts.h"
#include "coordination/coordination.h"
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
    base::RepeatedTexts hosts = {};      // by rank, where they are known already
    std::shared_ptr<Store> store;        // the group's own part of the job's store
    bool serves_store = false;           // true if the store ends with this process
    std::function<void()> look = [] {};  // throws if it is known, without the store, that a member will not come
  };
  explicit Formation(Parts parts);
  ~Formation();
  Formation(const Formation&) = delete;
  Formation& operator=(const Formation&) = delete;

  /// `store` is the plain store. `watched` is the same store, whose waits call `look` as long as this object lives.
  const std::shared_ptr<Store>& store() const { return parts_.store; }
  const std::shared_ptr<Store>& watched() const { return watched_; }
  /// Returns another store, watched in the same way.
  std::shared_ptr<Store> watch(std::shared_ptr<Store> other) const;

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

/// Gives access to the state of ranks that the world's coordination knows.
struct WorldView {
  std::function<std::optional<Failure>()> failure;                            ///< why the world is over, if it is
  std::function<std::optional<Failure>(std::span<const int> ranks)> look_at;  ///< a failure of one of these ranks: dead, or stopped for too long
  std::function<std::vector<int>()> gone;                                     ///< the ranks that are dead or have left
};
WorldView view_of(const std::shared_ptr<coordination::Coordination>& world);

/// Watches, through the coordination of the world, the ranks that are to form a group.
class MemberWatch {
 public:
  struct Parts {
    std::string operation, group;  // the names in error messages
    int rank = 0;                  // this rank in the group
    std::vector<int> members;      // ranks in the world, in group order
    base::RepeatedTexts hosts;     // names of their hosts
    int world_size = 1;
    WorldView world;
    std::shared_ptr<Store> store;  // the group's own part of the job's store
  };
  explicit MemberWatch(Parts parts);

  /// Throws PeerFailed, with the culprit by its rank in the group, where a member is dead, stopped for too long, or has left without having come.
  void look() const;
  /// Returns when all members have come; the engine's own start then needs only a short wait. `store` is watched by `look`.
  void assemble(Store& store, const base::Deadline& deadline) const;
  /// Explains a broken connection to a member or to the job's store: returns the death of a process if one is found within a moment, else the error
  /// itself.
  std::exception_ptr explain(const std::exception_ptr& error) const;

 private:
  /// Returns the rank in the group of a rank of the world; -1 for one that is no member.
  int rank_of(int in_world) const;
  bool has_come(int rank) const noexcept;
  [[noreturn]] void throw_failure(int rank, const Failure& failure) const;
  void look_at_members() const;

  Parts parts_;
  bool was_sound_;
};

}  // namespace unisono::context
