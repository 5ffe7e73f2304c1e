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

/// The world's coordination knows this of its ranks.
struct WorldView {
  std::function<std::optional<Failure>()> failure;                            ///< why the world is over, if it is
  std::function<std::optional<Failure>(std::span<const int> ranks)> look_at;  ///< one of these that is dead or has been stopped for too long
  std::function<std::vector<int>()> gone;                                     ///< the ranks that are dead or have left
};
WorldView view_of(std::shared_ptr<coordination::Coordination> world);

/// Looks, through the coordination of the world, after the ranks that are to form a group.
class MemberWatch {
 public:
  struct Parts {
    std::string operation, group;    // as errors call them
    int rank = 0;                    // in the group
    std::vector<int> members;        // ranks in the world, in group order
    std::vector<std::string> hosts;  // their names
    int world_size = 1;
    WorldView world;
    std::shared_ptr<Store> store;  // the group's own part of the job's store
  };
  explicit MemberWatch(Parts parts);

  /// Throws PeerFailed, with the culprit by its rank in the group, where a member is dead, stopped for too long, or has left without having come.
  void look() const;
  /// Returns when all members have come: what making the engine waits for afterwards is short. `store`: watched by `look`.
  void assemble(Store& store, const base::Deadline& deadline) const;
  /// What went wrong when a connection to a member or the job's store broke: the death of a process, where one is found within a moment. Else the
  /// error as it is.
  std::exception_ptr explain(const std::exception_ptr& error) const;

 private:
  bool has_come(int rank) const noexcept;
  [[noreturn]] void throw_failure(int rank, const Failure& failure) const;
  void look_at_members() const;

  Parts parts_;
  bool was_sound_;
};

}  // namespace unisono::context
