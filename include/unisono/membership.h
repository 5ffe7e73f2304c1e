#pragma once

#include <string>
#include <string_view>

#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/store.h"

namespace unisono {

/// The way in which the members of a group find each other.
struct MembershipOptions {
  /// The store of these members and this group alone: give each group a PrefixStore of its own.
  /// Nothing is read or written there once the group is formed, so that the process which serves it
  /// may end before the others.
  std::shared_ptr<Store> store = {};
  /// The rank of this member, and the number of members.
  int rank = 0, size = 1;
  /// The name that errors and logs use.
  std::string name = "world";
  /// The backend, as in InitOptions.
  std::string backend = "auto";
  /// The deadline of forming the group, and of its calls.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// A text that all members must have in common, beside the version of unisono: "PyTorch 2.13".
  /// Members that differ get ProtocolError.
  std::string library = {};
};

/// A part in a group that has nothing to do with the process's context.
///
/// It is for libraries that start and find their processes by themselves, and want as many groups
/// at once as they like. In such a group `global_rank` is the rank within it, and no groups are
/// split from it: form another one.
///
/// ```cpp
/// Membership member({.store = store, .rank = r, .size = n});
/// all_reduce(x, ReduceOp::sum, member.group());
/// ```
class UNISONO_API Membership {
 public:
  /// Collective: returns once all members have come. Throws what `initialize` throws.
  explicit Membership(const MembershipOptions& options);
  /// Leaves the group; abandons it if an exception is leaving the scope.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// Returns the group. NotInitialized once it was left.
  const ProcessGroup& group() const;
  /// Waits at most 10 s for operations under way, and tells the others. Later calls on the group
  /// throw NotInitialized. A second call does nothing.
  void leave();
  /// The same for a program that ends without leaving: ranks that still wait for this one are told how
  /// its process has ended.
  void leave_at_exit();
  /// Leaves without waiting for anything. With `how`, as in "rank 2 ended with ValueError: bad
  /// data", the group ends for all members, whose calls throw PeerFailed with that text.
  void abandon(std::string_view how = {});

 private:
  struct State;
  enum class How { leave, leave_at_exit, abandon };
  void end(How how, std::string_view why);
  std::unique_ptr<State> state_;
  int exceptions_;
};

}  // namespace unisono
