#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono {

namespace group {
class Group;
}

/// A rank within the world, where a call would otherwise take a rank within its group.
struct GlobalRank {
  int value;
};

/// A rank given to a call: an integer is a rank within the call's group, a GlobalRank is translated.
class Rank {
 public:
  template <std::integral T>
  requires(!std::same_as<T, bool>) constexpr Rank(T value) noexcept  // NOLINT(google-explicit-constructor)
      : value_(std::cmp_less(value, -1) || std::cmp_greater(value, 0x7ffffffe) ? -1 : static_cast<int>(value)) {}
  constexpr Rank(GlobalRank rank) noexcept : value_(rank.value), global_(true) {}  // NOLINT(google-explicit-constructor)
  constexpr int value() const noexcept { return value_; }
  constexpr bool is_global() const noexcept { return global_; }

 private:
  int value_;
  bool global_ = false;
};

/// Of one call. `timeout`: instead of the group's. `tag`: of messages, which are matched by it; of collectives, whose ranks must agree on it.
/// `where`: what errors name as the place of the call. A function that calls for another hands on its caller's.
struct CallOptions {
  std::optional<std::chrono::milliseconds> timeout = {};
  int tag = 0;
  std::source_location where = std::source_location::current();
};

/// A set of processes that call together. A cheap handle; copies share the group. Every rank calls the group's collectives in the same order.
class UNISONO_API ProcessGroup {
 public:
  int rank() const;  ///< of this process within the group
  int size() const;
  std::string name() const;
  std::string backend() const;
  std::vector<int> global_ranks() const;  ///< in group order
  bool contains(GlobalRank rank) const;
  std::optional<int> rank_of(GlobalRank rank) const;
  int global_rank(int group_rank) const;  ///< InvalidArgument where there is no such rank
  /// Gives up: pending and later calls of every rank throw PeerFailed with this reason.
  void abort(std::string_view reason);

  explicit ProcessGroup(std::shared_ptr<group::Group> implementation) noexcept : implementation_(std::move(implementation)) {}
  const std::shared_ptr<group::Group>& implementation() const noexcept { return implementation_; }
  friend bool operator==(const ProcessGroup&, const ProcessGroup&) = default;

 private:
  std::shared_ptr<group::Group> implementation_;
};

/// All processes of the job; inside run_threads, all of its threads. A process that was not launched is a world of one. NotInitialized in a
/// launched process before initialize, and in a child of fork.
UNISONO_API ProcessGroup world();

/// The options of a group that is to be formed. `backend`: as in InitOptions, for this group only; empty: as the world's. Its members give the same,
/// else all of them throw InvalidArgument. `timeout`: of its calls, and of forming it, instead of the world's. `where`: as in CallOptions.
struct GroupOptions {
  std::string backend = {};
  std::optional<std::chrono::milliseconds> timeout = {};
  std::source_location where = std::source_location::current();
};

/// A group of some of the world's processes, its ranks in the order given. Only the members need to call, each with the same list (and, for lists
/// that are alike, in the same order); it waits for them. nullopt for everybody else. InvalidArgument for no ranks, a rank twice or outside the
/// world. BackendUnavailable for a backend that its members cannot use: tcp needs the connections of a job that has them. The group ends with its
/// last handle.
UNISONO_API std::optional<ProcessGroup> new_group(std::span<const int> global_ranks, const GroupOptions& options = {});
UNISONO_API std::optional<ProcessGroup> new_group(std::initializer_list<int> global_ranks, const GroupOptions& options = {});
/// The group of all processes of the world, in its order: all of them call.
UNISONO_API ProcessGroup new_group(const GroupOptions& options = {});
/// Collective over the parent: members of one color form a group, ordered by key, then by their rank in the parent. Color < 0: of none, nullopt.
UNISONO_API std::optional<ProcessGroup> split_group(const ProcessGroup& parent, int color, int key = 0, const GroupOptions& options = {});
/// The processes of this host. Collective over them at the first call. `where`, here and below: as in CallOptions.
UNISONO_API ProcessGroup local_group(std::source_location where = std::source_location::current());
/// After a failure: a new group of those members that are left and call this, in the old order. Who does not call within the group's timeout (30 s at
/// the most) is left out; nullopt for one that the others have given up.
UNISONO_API std::optional<ProcessGroup> shrink_group(const ProcessGroup& group, std::source_location where = std::source_location::current());

/// The group of all processes, as `world()`, without a copy: the reference is valid until `finalize()`. Every call takes it as its default group.
/// In a thread of `run_threads` it is the world of that thread's rank. NotInitialized where there is no context.
UNISONO_API const ProcessGroup& current_world(std::source_location where = std::source_location::current());

namespace detail {
/// The place of a call that takes nothing else: no braces make one.
class Caller {
 public:
  static Caller here(std::source_location where = std::source_location::current()) { return Caller(where); }
  std::source_location where() const { return where_; }

 private:
  explicit Caller(std::source_location where) : where_(where) {}
  std::source_location where_;
};
}  // namespace detail

}  // namespace unisono
