// The ends of a process's part in a job: in order, after a failure, and for another generation of the job.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/deadline.h"
#include "base/log.h"
#include "context/state.h"
#include "store/watched_store.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

using coordination::Leaving;
using namespace std::chrono_literals;

constexpr auto finalize_deadline = 10s;

// The time in which the store hears that this process is done with the job. After a failure the store may have gone the way of the peers, and a
// caller waits for its error.
constexpr auto leave_time = 1000ms;
constexpr auto leave_time_after_failure = 250ms;

// A process that serves the store keeps it until the other ranks have said that they no longer need it.
void say_goodbye(State& state, const base::Deadline& deadline) {
  if (state.goodbye_key.empty()) return;
  try {
    if (!state.serves_store) return state.store->set(state.goodbye_key + std::to_string(state.rank), "1");
    std::vector<std::string> keys;
    std::vector<int> others;
    for (int r = 0; r < state.world_size; ++r) {
      if (r == state.rank) continue;
      keys.push_back(state.goodbye_key + std::to_string(r));
      others.push_back(r);
    }
    // A dead rank says no goodbye. Another failure of the world may be that somebody waited for this rank, and it may go on in other groups.
    store::WatchedStore watched(state.store, [&] {
      if (const auto failure = state.world->implementation()->coordination().detector().look_at(others)) throw PeerFailed(failure->message);
    });
    watched.wait(keys, deadline.left());
  } catch (const std::exception& error) {
    // A late rank finds the store gone, and needed it only for its goodbye. Stores of the user's may throw any exception.
    base::log(base::LogLevel::debug, error.what());
  }
}

/// Tells the launcher that this process has finalized, though its world has failed. The last status tells where this rank itself has met a failure:
/// that stays. Else another rank has ended the world while this one did not need it any more, or shrink_group has left a sound part of it.
void finalize_failed(const State& state) noexcept {
  if (!state.launcher_store) return;
  try {
    const std::string status = fmt::format("unisono/status/{}", state.place_of(state.rank));
    for (const char* const sound : {"shrunk", "initialized"}) {
      const std::string left = state.launcher_store->compare_set(status, sound, "finalized");
      if (left == "finalized") return state.recorder->set_state(recorder::RankState::left);
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the launcher is gone and has nothing to learn
  }
}

/// Ends the groups other than the world. Returns true where one of them, or the world, was sound until then: its last data matters to others.
bool end_groups(State& state, const base::Deadline& deadline, Leaving how) {
  bool any_is_sound = false;
  for (const auto& member : state.groups) {
    const auto group = member.lock();
    if (!group) continue;
    any_is_sound = any_is_sound || !group->coordination().failure();
    group->close(deadline.left(), how);
  }
  return any_is_sound || !state.world->implementation()->coordination().failure();
}

/// Ends the world, and with it the connections of all groups.
void end_world(State& state, bool any_is_sound, std::chrono::milliseconds at_most, Leaving how) {
  group::Group& world = *state.world->implementation();
  if (any_is_sound) world.close(at_most, how);
  else world.drop(how);
  state.progress->stop();
}

}  // namespace

void leave(State& state, Leaving how) {
  const base::Deadline deadline(finalize_deadline);
  const bool any_is_sound = end_groups(state, deadline, how);
  group::Group& world = *state.world->implementation();
  const bool sound = !state.world->implementation()->coordination().failure();
  const bool after_mismatch = world.errors().is_after_mismatch() || state.is_after_mismatch();
  end_world(state, any_is_sound, finalize_deadline, how);
  if (sound) {
    if (state.is_job) state.recorder->set_state(recorder::RankState::left);
    // A rank that gives up because of a Mismatch has told the launcher so. That report stays the reason if the rank fails now.
    if (state.is_job && !after_mismatch) tell_launcher(state, "finalized");
    say_goodbye(state, deadline);
  } else if (state.is_job) {
    finalize_failed(state);
  }
  state.leave_job(sound ? leave_time : leave_time_after_failure);
}

void retire(State& state) {
  const base::Deadline deadline(finalize_deadline);
  const bool any_is_sound = end_groups(state, deadline, Leaving::in_order);
  end_world(state, any_is_sound, deadline.left(), Leaving::in_order);
  state.leave_job(leave_time);
}

void abandon(State& state, Leaving how) {
  for (const auto& member : state.groups) {
    if (const auto group = member.lock()) group->drop(how);
  }
  state.world->implementation()->drop(how);
  state.progress->stop();
  state.leave_job(leave_time_after_failure);
}

/// The exception may be the error of a group that has lost a member. Then that member has ended the job, and not this rank. After shrink_group the
/// world is over, and those that are left of it wait in another group.
void give_up(State& state, std::string_view how, std::optional<int> blamed) {
  std::vector<std::shared_ptr<group::Group>> groups{state.world->implementation(), state.whole};
  for (const auto& member : state.groups) groups.push_back(member.lock());
  const bool after_mismatch = state.world->implementation()->errors().is_after_mismatch() || state.is_after_mismatch();
  bool is_first = true;  // no group of this rank has lost anybody
  for (const auto& group : groups) {
    if (!group || !group->errors().is_open()) continue;
    if (group->errors().has_lost_a_member()) is_first = is_first && group->coordination().failure()->culprit == group->rank();
    else group->errors().end(how);
  }
  if (is_first && blamed && !after_mismatch) {
    tell_launcher(state, fmt::format("poisoned {} rank {} {}", state.place_of(*blamed), state.place_of(state.rank), how));
  }
}

}  // namespace unisono::context
