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
/// The library's own side of a group, which no public header defines.
class Group;
}  // namespace group

/// A rank within the world, for calls that otherwise take a rank within their group.
///
/// ```cpp
/// broadcast(x, GlobalRank{5}, group);                // from rank 5 of the world, whatever its rank in the group
/// ```
struct GlobalRank {
  int value;
};

/// The rank that a call is given: an integer is a rank within the call's group, and a GlobalRank is
/// translated.
///
/// In torch.distributed `src` and `dst` are ranks of the world; here a plain number never is.
class Rank {
 public:
  /// Takes a rank within the group. A number that no rank can have becomes -1, which the call
  /// refuses.
  template <std::integral T>
  requires(!std::same_as<T, bool>) constexpr Rank(T value) noexcept  // NOLINT(google-explicit-constructor)
      : value_(std::cmp_less(value, -1) || std::cmp_greater(value, 0x7ffffffe) ? -1 : static_cast<int>(value)) {}
  /// Takes a rank within the world.
  constexpr Rank(GlobalRank rank) noexcept : value_(rank.value), global_(true) {}  // NOLINT(google-explicit-constructor)
  /// Returns the number as it was given.
  constexpr int value() const noexcept { return value_; }
  /// Tells whether the number is a rank within the world.
  constexpr bool is_global() const noexcept { return global_; }

 private:
  int value_;
  bool global_ = false;
};

/// The options of a single call: `barrier(group, {.timeout = 5s})`.
struct CallOptions {
  /// The deadline of this call, counted from its beginning; the group's unless it is set.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Messages are matched by their tags. The ranks of a collective agree on it. Numbers below
  /// -2130706432 are the library's own.
  int tag = 0;
  /// The place of the call that errors name. A function that calls on behalf of another passes on
  /// its caller's.
  std::source_location where = std::source_location::current();
  /// Whether the elements of a reduction are combined from rank 0 to the last, whatever the
  /// backend, the hosts and the length: the result has the same bits in every job of that many
  /// ranks. It may cost time. The ranks of a collective agree on it.
  bool deterministic = false;
};

/// A set of processes that call together. A ProcessGroup is a cheap handle, and copies refer to the
/// same group.
///
/// Every rank makes the group's collective calls in the same order. Only members hold a group. It
/// ends with its last handle; the world ends with `finalize`, after which calls on it throw
/// NotInitialized.
class UNISONO_API ProcessGroup {
 public:
  /// Returns the rank of this process within the group, from 0 to size() - 1.
  int rank() const;
  /// Returns the number of members.
  int size() const;
  /// Returns the name that errors and logs use: "world", or the members in braces.
  std::string name() const;
  /// Returns the name of the backend that carries the group's calls: "native", "tcp" …
  std::string backend() const;
  /// Returns the ranks of the members within the world, in group order.
  std::vector<int> global_ranks() const;
  /// Tells whether a process of the world is a member.
  bool contains(GlobalRank rank) const;
  /// Returns the rank within the group of a process of the world; std::nullopt if it is not a member.
  std::optional<int> rank_of(GlobalRank rank) const;
  /// Returns the rank within the world of a member. InvalidArgument if the group has no such rank.
  int global_rank(int group_rank) const;
  /// Ends the group for all its members: their pending and later calls throw PeerFailed with this
  /// reason. The call of a single rank is enough.
  void abort(std::string_view reason);

  /// Makes a handle of the library's own object. Programs do not call it.
  explicit ProcessGroup(std::shared_ptr<group::Group> implementation) noexcept : implementation_(std::move(implementation)) {}
  /// Returns the library's own object, of a type that no public header defines.
  const std::shared_ptr<group::Group>& implementation() const noexcept { return implementation_; }
  friend bool operator==(const ProcessGroup&, const ProcessGroup&) = default;

 private:
  std::shared_ptr<group::Group> implementation_;
};

/// Returns the group of all processes of the job; inside run_threads, of all its threads.
///
/// A process that was not launched is a world of one.
///
/// @throws NotInitialized in a launched process before `initialize` and after `finalize`, and in a
///   child of fork
UNISONO_API ProcessGroup world();

/// The options of a new group.
struct GroupOptions {
  /// The backend of this group, as in InitOptions; empty for the world's. All members give the same
  /// one; otherwise all throw InvalidArgument.
  std::string backend = {};
  /// The deadline of forming the group, and of its calls; the world's unless it is set.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// The place of the call, as in CallOptions.
  std::source_location where = std::source_location::current();
};

/// Forms a group of some processes of the world, whose ranks are in the order given.
///
/// Only the members have to call, each with the same list; any other process gets std::nullopt at
/// once. The call waits for all members. Several groups with the same list are formed in the same
/// order by all their members. torch.distributed sorts the ranks and makes every process of the
/// world call; here the order is kept.
///
/// ```cpp
/// if (const auto group = new_group({2, 0, 1})) all_reduce(x, ReduceOp::sum, *group);
/// ```
///
/// @throws InvalidArgument for no ranks, for a rank twice, and for a rank outside the world
/// @throws BackendUnavailable if the members cannot use the backend; tcp needs a world that has
///   connections
UNISONO_API std::optional<ProcessGroup> new_group(std::span<const int> global_ranks, const GroupOptions& options = {});

/// Forms a group of the listed ranks of the world.
UNISONO_API std::optional<ProcessGroup> new_group(std::initializer_list<int> global_ranks, const GroupOptions& options = {});

/// Forms another group of all processes of the world, in its order. All of them call.
UNISONO_API ProcessGroup new_group(const GroupOptions& options = {});

/// Splits a group into groups of one color each, as MPI_Comm_split does. Collective over the
/// parent.
///
/// The members of a color are ordered by `key`, then by their rank in the parent. A rank with a
/// negative color belongs to none and gets std::nullopt.
///
/// ```cpp
/// const auto row = split_group(world(), rank() / columns);
/// ```
UNISONO_API std::optional<ProcessGroup> split_group(const ProcessGroup& parent, int color, int key = 0, const GroupOptions& options = {});

/// Returns the group of the processes of this host, in the order of the world. The first call is
/// collective over them; later calls return the same group.
UNISONO_API ProcessGroup local_group(std::source_location where = std::source_location::current());

/// Forms a group of the surviving members of a group that has failed, or of which a member has
/// died. All survivors call; the old order is kept.
///
/// A member that does not call within the group's timeout, and 30 s at most, is left out; if it
/// calls later it gets std::nullopt.
///
/// ```cpp
/// try {
///   all_reduce(x, ReduceOp::sum, group);
/// } catch (const PeerFailed&) {
///   group = shrink_group(group).value();
/// }
/// ```
///
/// @throws InvalidArgument if the group is sound
UNISONO_API std::optional<ProcessGroup> shrink_group(const ProcessGroup& group, std::source_location where = std::source_location::current());

/// Returns the group of all processes without a copy: the default group of every call.
///
/// It is `world()` as a reference, which is valid until `finalize()`, and until grow_group forms
/// another world. In a thread of run_threads it is the world of that thread's rank.
///
/// @throws NotInitialized if there is no context
UNISONO_API const ProcessGroup& current_world(std::source_location where = std::source_location::current());

namespace detail {
/// The place of a call that takes nothing else. Braces cannot make one, so that counts in braces
/// are not taken for it.
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
