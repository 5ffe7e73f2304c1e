// The ends of a process's part in a job: in order, after a failure, and for another generation of the job.
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "context/state.h"
#include "store/watched_store.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

constexpr auto finalize_deadline = 10s;

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

}  // namespace

void leave(State& state) {
  const base::Deadline deadline(finalize_deadline);
  for (const auto& member : state.groups) {
    if (const auto group = member.lock()) group->close(deadline.left());
  }
  group::Group& world = *state.world->implementation();
  const bool sound = !world.coordination().failure().has_value();
  const bool after_mismatch = world.is_after_mismatch() || state.is_after_mismatch();
  world.close(finalize_deadline);
  state.progress->stop();
  if (sound) {
    if (state.is_job) state.recorder->set_state(recorder::RankState::left);
    // A rank that gives up because of a Mismatch has told the launcher so. That report stays the reason if the rank fails now.
    if (state.is_job && !after_mismatch) tell_launcher(state, "finalized");
    say_goodbye(state, deadline);
  }
  state.leave_job();
}

void retire(State& state) {
  const base::Deadline deadline(finalize_deadline);
  const auto end = [&](group::Group& group) {
    if (group.coordination().failure()) group.drop();
    else group.close(deadline.left());
  };
  for (const auto& member : state.groups) {
    if (const auto group = member.lock()) end(*group);
  }
  end(*state.world->implementation());
  state.progress->stop();
  state.leave_job();
}

void abandon(State& state) {
  for (const auto& member : state.groups) {
    if (const auto group = member.lock()) group->drop();
  }
  state.world->implementation()->drop();
  state.progress->stop();
  state.leave_job();
}

}  // namespace unisono::context
