#pragma once

#include <string>
#include <string_view>

#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/store.h"

namespace unisono {

/// How the members of a group find each other.
struct MembershipOptions {
  /// The store of these members and this group alone: give each group a PrefixStore of its own. Nothing is read or written there once the group is
  /// formed, so that the process which serves it may end before the others.
  std::shared_ptr<Store> store = {};
  int rank = 0, size = 1;        ///< in the group
  std::string name = "world";    ///< of the group, for messages
  std::string backend = "auto";  ///< as of InitOptions
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// A part in a group that has nothing to do with the process's context: for libraries that start and find their processes by themselves, and for as
/// many groups at once as they like. In its group `global_rank` is the rank, and groups are not split from it: form another one.
class UNISONO_API Membership {
 public:
  /// Collective: returns when all members have come. Throws what `initialize` throws.
  explicit Membership(const MembershipOptions& options);
  /// `leave`; while an exception is leaving, `abandon`.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// NotInitialized once it was left.
  const ProcessGroup& group() const;
  /// Waits, 10 s at most, for what is under way, and says goodbye. Later calls on the group throw NotInitialized. Idempotent.
  void leave();
  /// The same without waiting for anything. With `how` it ended, as in "rank 2 ended with ValueError: bad data", the group is over for all its
  /// members, and that is what their calls throw.
  void abandon(std::string_view how = {});

 private:
  struct State;
  void end(bool wait, std::string_view how);
  std::unique_ptr<State> state_;
  int exceptions_;
};

}  // namespace unisono
