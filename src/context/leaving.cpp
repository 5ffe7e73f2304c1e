// The ends of a process's part in a job: in order, after a failure, and for another generation of the job.

#include "context/leaving.h"

#include <exception>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "context/job.h"
#include "store/watched_store.h"
#include "unisono/error.h"

namespace unisono::context {

std::string world_prefix(const rendezvous::JobIdentity& identity) { return "unisono/world/" + std::to_string(identity.generation) + "/"; }

Goodbye::Goodbye(const rendezvous::JobIdentity& identity, const Terms& terms)
    : store_(identity.store),
      rank_(identity.rank),
      world_size_(identity.world_size),
      serves_store_(identity.serves_store),
      leave_job_(identity.leave) {
  if (terms.are_job && identity.world_size > 1 && identity.store != identity.launcher_store) key_ = world_prefix(identity) + "goodbye/";
}

void Goodbye::say(const base::Deadline& deadline, const std::function<void(std::span<const int> others)>& look) const {
  if (key_.empty()) return;
  try {
    if (!serves_store_) return store_->set(key_ + std::to_string(rank_), "1");
    std::vector<std::string> keys;
    std::vector<int> others;
    for (int r = 0; r < world_size_; ++r) {
      if (r == rank_) continue;
      keys.push_back(key_ + std::to_string(r));
      others.push_back(r);
    }
    store::WatchedStore watched(store_, [&] { look(others); });
    watched.wait(keys, deadline.left());
  } catch (const std::exception& error) {
    // A late rank finds the store gone, and needed it only for its goodbye. Stores of the user's may throw any exception.
    base::log(base::LogLevel::debug, error.what());
  }
}

namespace {

using coordination::Leaving;
using namespace std::chrono_literals;

constexpr auto finalize_deadline = 10s;

// The time in which the store hears that this process is done with the job. After a failure the store may have gone the way of the peers, and a
// caller waits for its error.
constexpr auto leave_time = 1000ms;
constexpr auto leave_time_after_failure = 250ms;

/// Ends the groups other than the world. Returns true where one of them, or the world, was sound until then: its last data matters to others.
bool end_groups(State& state, const base::Deadline& deadline, Leaving how) {
  bool any_is_sound = false;
  for (const auto& group : state.groups.open()) {
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
  const bool sound = !world.coordination().failure();
  const bool after_mismatch = world.errors().is_after_mismatch() || state.is_after_mismatch();
  end_world(state, any_is_sound, finalize_deadline, how);
  const bool is_job = state.job.owes_finalize();
  if (sound) {
    if (is_job) state.recorder->set_state(recorder::RankState::left);
    // A rank that gives up because of a Mismatch has told the launcher so. That report stays the reason if the rank fails now.
    if (is_job && !after_mismatch) state.launcher.tell("finalized");
    // A dead rank says no goodbye. Another failure of the world may be that somebody waited for this rank, and it may go on in other groups.
    state.goodbye.say(deadline, [&](std::span<const int> others) {
      if (const auto failure = world.coordination().detector().look_at(others)) throw PeerFailed(failure->message);
    });
  } else if (is_job && state.launcher.tell_finalized_after_failure()) {
    state.recorder->set_state(recorder::RankState::left);
  }
  state.goodbye.leave_job(sound ? leave_time : leave_time_after_failure);
}

void retire(State& state) {
  const base::Deadline deadline(finalize_deadline);
  const bool any_is_sound = end_groups(state, deadline, Leaving::in_order);
  end_world(state, any_is_sound, deadline.left(), Leaving::in_order);
  state.goodbye.leave_job(leave_time);
}

void abandon(State& state, Leaving how) {
  for (const auto& group : state.groups.open()) group->drop(how);
  state.world->implementation()->drop(how);
  state.progress->stop();
  state.goodbye.leave_job(leave_time_after_failure);
}

/// The exception may be the error of a group that has lost a member. Then that member has ended the job, and not this rank. After shrink_group the
/// world is over, and those that are left of it wait in another group.
void give_up(State& state, std::string_view how, std::optional<int> blamed) {
  std::vector<std::shared_ptr<group::Group>> groups = state.groups.open();
  groups.insert(groups.begin(), {state.world->implementation(), state.whole});
  const bool after_mismatch = state.world->implementation()->errors().is_after_mismatch() || state.is_after_mismatch();
  bool is_first = true;  // no group of this rank has lost anybody
  for (const auto& group : groups) {
    if (!group->errors().is_open()) continue;
    if (group->errors().has_lost_a_member()) is_first = is_first && group->coordination().failure()->culprit == group->rank();
    else group->errors().end(how);
  }
  if (is_first && blamed && !after_mismatch) state.launcher.tell_given_up(*blamed, how);
}

}  // namespace unisono::context
