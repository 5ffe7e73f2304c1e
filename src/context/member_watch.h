#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "coordination/coordination.h"
#include "unisono/store.h"

namespace unisono::context {

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
    std::string operation, group;    // the names in error messages
    int rank = 0;                    // this rank in the group
    std::vector<int> members;        // ranks in the world, in group order
    std::vector<std::string> hosts;  // names of their hosts
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
  bool has_come(int rank) const noexcept;
  [[noreturn]] void throw_failure(int rank, const Failure& failure) const;
  void look_at_members() const;

  Parts parts_;
  bool was_sound_;
};

}  // namespace unisono::context
