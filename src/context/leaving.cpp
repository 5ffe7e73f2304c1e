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
      if (const auto failure = state.world->implementation()->coordination().look_at(others)) throw PeerFailed(failure->message);
    });
    watched.wait(keys, deadline.left());
  } catch (const std::exception& error) {
    // A late rank finds the store gone, and needed it only for its goodbye. Stores of the user's may throw any exception.
    base::log(base::LogLevel::debug, error.what());
  }
}

/// After shrink_group the world has failed for good, and the last status tells whether what was left of it has failed as well. Tells the launcher
/// that this process has finalized where it has not.
void finalize_shrunk(const State& state) noexcept {
  if (!state.launcher_store) return;
  try {
    const std::string status = fmt::format("unisono/status/{}", state.place_of(state.rank));
    const std::string left = state.launcher_store->compare_set(status, "shrunk", "finalized");
    if (left == "finalized") state.recorder->set_state(recorder::RankState::left);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the launcher is gone and has nothing to learn
  }
}

/// Ends the groups other than the world. Returns true where one of them, or the world, was sound until then: its last data matters to others.
bool end_groups(State& state, const base::Deadline& deadline) {
  bool any_is_sound = false;
  for (const auto& member : state.groups) {
    const auto group = member.lock();
    if (!group) continue;
    any_is_sound = any_is_sound || !group->coordination().failure();
    group->close(deadline.left());
  }
  return any_is_sound || !state.world->implementation()->coordination().failure();
}

/// Ends the world, and with it the connections of all groups.
void end_world(State& state, bool any_is_sound, std::chrono::milliseconds at_most) {
  group::Group& world = *state.world->implementation();
  if (any_is_sound) world.close(at_most);
  else world.drop();
  state.progress->stop();
}

}  // namespace

void leave(State& state) {
  const base::Deadline deadline(finalize_deadline);
  const bool any_is_sound = end_groups(state, deadline);
  const group::Group& world = *state.world->implementation();
  const bool sound = !state.world->implementation()->coordination().failure();
  const bool after_mismatch = world.is_after_mismatch() || state.is_after_mismatch();
  end_world(state, any_is_sound, finalize_deadline);
  if (sound) {
    if (state.is_job) state.recorder->set_state(recorder::RankState::left);
    // A rank that gives up because of a Mismatch has told the launcher so. That report stays the reason if the rank fails now.
    if (state.is_job && !after_mismatch) tell_launcher(state, "finalized");
    say_goodbye(state, deadline);
  } else if (state.is_job) {
    finalize_shrunk(state);
  }
  state.leave_job(sound ? leave_time : leave_time_after_failure);
}

void retire(State& state) {
  const base::Deadline deadline(finalize_deadline);
  const bool any_is_sound = end_groups(state, deadline);
  end_world(state, any_is_sound, deadline.left());
  state.leave_job(leave_time);
}

void abandon(State& state) {
  for (const auto& member : state.groups) {
    if (const auto group = member.lock()) group->drop();
  }
  state.world->implementation()->drop();
  state.progress->stop();
  state.leave_job(leave_time_after_failure);
}

}  // namespace unisono::context
