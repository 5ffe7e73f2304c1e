#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/detail/object_bytes.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"

// Jobs that lose processes, go on, and take new ones in: `unisono run -n MIN:MAX`.
//
// A rank that is lost ends the group for the others (PeerFailed). shrink_group makes a group of the
// survivors. The launcher starts a process in the place of the lost one, whose `initialize` waits
// until the members take it in by grow_group, between two steps. Either way `synchronize` brings
// all members to the state of the one that has come furthest. run_elastic does all of it.
//
// ```cpp
// Context context;                                   // a newcomer waits here until it is taken in
// ElasticState state;
// state.buffer("weights", weights);
// run_elastic(state, [&](const ProcessGroup& group) {
//   if (state.step == steps) return false;
//   train(weights, group);
//   ++state.step;
//   return true;
// });
// ```

namespace unisono {

/// Tells all members of a group whether processes wait to be taken in, which the launcher has
/// started in the place of lost ones. Collective; it costs a small all_reduce, and on rank 0 a
/// request to the job's store.
///
/// It is false in a job that no launcher of ours has started.
///
/// @throws InvalidArgument for any other group than the world and what shrink_group has left of it
UNISONO_API bool newcomers_waiting(const ProcessGroup& group = current_world(), std::source_location where = std::source_location::current());

/// Takes in the processes that wait, and returns the new world: the members of the group in their
/// order, and after them the newcomers. If none waits, or none of them gets through, it returns the
/// group itself. Collective over the group.
///
/// The new group is the world from then on: `world()`, `rank()` and `world_size()` speak of it, in
/// the newcomers as well, whose `initialize` returns. All groups of before end, their operations
/// must be done, and no other thread may be in a call. A newcomer that has not come after 30 s, or
/// after the group's timeout if that is shorter, is left out.
///
/// @throws InvalidArgument as newcomers_waiting does
/// @throws PeerFailed if a member dies or fails meanwhile: nobody has the new group then, and
///   shrink_group makes one of the survivors
UNISONO_API ProcessGroup grow_group(const ProcessGroup& group, std::source_location where = std::source_location::current());

/// Lists what all members of a group must have alike: a step counter, buffers and objects, which
/// belong to the program and outlive this object.
///
/// ```cpp
/// ElasticState state;
/// state.buffer("weights", weights).buffer("momentum", momentum).object("history", history);
/// ```
class UNISONO_API ElasticState {
 public:
  ElasticState();
  ~ElasticState();
  ElasticState(const ElasticState&) = delete;
  ElasticState& operator=(const ElasticState&) = delete;

  /// The number of steps that are done. The program counts it up when a step is complete: all that
  /// is listed has changed.
  std::int64_t step = 0;

  /// Adds a buffer of the host's memory, which has the same length and dtype on all members. Of a
  /// view, and of a tensor of LibTorch, a copy is kept; the elements stay where they are.
  template <Buffer B>
  ElasticState& buffer(std::string name, B&& x) {
    if constexpr (detail::is_temporary_view<B>) {
      return buffer(
          std::move(name), [x = std::remove_cvref_t<B>(x)]() mutable { return detail::writable_view_of(x); }, nullptr);
    } else {
      return buffer(
          std::move(name), [&x] { return detail::writable_view_of(x); }, nullptr);
    }
  }

  /// Adds a buffer that is asked for at each synchronisation, such as a copy in the host's memory of
  /// what lies elsewhere. `view` returns the elements, which have the same length and dtype on all
  /// members; `done`, unless it is empty, is called at the end, with whether they are new. An exception
  /// of `view` is thrown by its own member's call, and InvalidArgument by those of the others.
  ElasticState& buffer(std::string name, std::function<TensorView()> view, std::function<void(bool)> done);

  /// Adds an object (objects.h), such as a number, a string or a container of any length.
  template <detail::object O>
  ElasticState& object(std::string name, O& x) {
    return object(
        std::move(name), detail::object_type<O>(), [&x] { return detail::to_bytes<O>(x); },
        [&x](std::span<const std::byte> bytes) -> std::function<void()> {
          return [&x, value = std::make_shared<O>(detail::from_bytes<O>(bytes))] { x = std::move(*value); };
        });
  }

  /// Returns the bytes of a state. An exception is thrown by the source's call, and InvalidArgument
  /// by those of the others.
  using Write = std::function<std::vector<std::byte>()>;
  /// Takes the bytes of the source's state, and returns what puts them in the place of the old one
  /// when all of the state is there. An exception is thrown by its own member's call, and
  /// InvalidArgument by those of the others; no member has changed anything then.
  using Read = std::function<std::function<void()>(std::span<const std::byte>)>;
  /// Adds something that is written and read by functions of the program's, of any length. `write`
  /// is called on the source, `read` on all others.
  ElasticState& bytes(std::string name, Write write, Read read);
  /// The same for an object of another language, whose type all members must have alike. Programs do
  /// not call it.
  ElasticState& object(std::string name, const detail::ObjectType& type, Write write, Read read);

  /// The library's own side of the list, which no public header defines.
  struct Entries;
  /// Returns it. Programs do not call it.
  const Entries& entries() const noexcept { return *entries_; }

 private:
  std::unique_ptr<Entries> entries_;
};

/// Brings all members of a group to the state of the one with the most steps; of several, the lowest
/// rank. Returns that rank. Collective over the group: all members call it, each time.
///
/// A member that fails meanwhile leaves no other with a half of a state: it is put together beside
/// the old one first, which takes as much memory again.
///
/// @throws Mismatch on all members if they list different things
UNISONO_API int synchronize(ElasticState& state, const ProcessGroup& group = current_world(),
                            std::source_location where = std::source_location::current());

/// Calls `step` again and again, with the group of all processes that there are at the time, until
/// it returns false. Collective; it returns the group that was the last.
///
/// Before a step newcomers are taken in. A step that throws PeerFailed is followed by shrink_group.
/// `synchronize` is called at the beginning, and after both. A step that only some members have
/// completed counts as completed. So `step` changes what is listed in the state only after its last
/// call on the group, and all members return the same.
///
/// @throws Timeout if the others have gone on without this rank
/// @throws PeerFailed if the survivors find each other no more
UNISONO_API ProcessGroup run_elastic(ElasticState& state, const std::function<bool(const ProcessGroup&)>& step,
                                     std::source_location where = std::source_location::current());

}  // namespace unisono
