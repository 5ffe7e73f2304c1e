// The ends of a process's part in a job: in order, after a failure, and for another generation of the job.

#include "context/world.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/error_text.h"
#include "context/job.h"
#include "context/state.h"
#include "engines/decision.h"
#include "store/wrappers.h"
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

namespace {

using namespace std::chrono_literals;

/// The time in which the others are told. A thread that ends the process may hold what that needs.
constexpr auto longest_telling = 2s;
constexpr auto longest_flush = 500ms;

// Never destroyed: processes may end by an exception in the destructors of static objects.
std::mutex& watched_mutex() {
  static auto& instance = *new std::mutex;
  return instance;
}
std::vector<State*>& watched_states() {
  static auto& instance = *new std::vector<State*>;
  return instance;
}
std::promise<void>& told() {
  static auto& instance = *new std::promise<void>;
  return instance;
}
std::atomic<std::terminate_handler> previous{nullptr};
std::atomic_flag is_ending = ATOMIC_FLAG_INIT;
thread_local bool is_inside = false;
std::atomic<bool> is_under_launcher{false};

void tell(const base::Thrown& thrown) {
  const std::lock_guard lock(watched_mutex());
  for (State* const state : watched_states()) {
    give_up(*state, "ended with " + thrown.text(), thrown.blamed);
    if (const auto& link = state->world->implementation()->coordination().link()) link->goodbye(longest_flush);
  }
}

void have_told(const std::exception_ptr& error) {
  if (!error || group::in_forked_child()) return;
  static const std::shared_future<void>& is_told = *new std::shared_future<void>(told().get_future());
  if (!is_ending.test_and_set()) {
    base::Thread("the news of an exception", [thrown = base::Thrown::describe(error)] {
      tell(thrown);
      told().set_value();
    }).detach();
  }
  static_cast<void>(is_told.wait_for(longest_telling));  // also where two threads end the process at once
}

/// A Mismatch is thrown on all ranks alike, and `unisono run` shows its text and the ranks in groups. So the culprit prints it, and the lowest other
/// rank; the remaining ranks would print the same again.
bool is_printed_by_others(const std::exception_ptr& error) {
  if (!error || !is_under_launcher.load()) return false;
  try {
    std::rethrow_exception(error);
  } catch (const Mismatch& mismatch) {
    const int culprit = mismatch.culprit().value_or(-1);
    return mismatch.hint() == engines::mismatch_hint && mismatch.rank() != culprit && mismatch.rank() != (culprit == 0 ? 1 : 0);
  } catch (...) {
    return false;
  }
}

[[noreturn]] void on_terminate() {
  if (is_inside) std::abort();  // the handler of before has called this one
  is_inside = true;
  try {
    have_told(std::current_exception());
  } catch (...) {  // NOLINT(bugprone-empty-catch): the others see a dead process
  }
  const std::terminate_handler before = previous.load();
  if (before != nullptr && (before != __gnu_cxx::__verbose_terminate_handler || !is_printed_by_others(std::current_exception()))) before();
  std::abort();
}

void forget(const State* state) {
  const std::lock_guard lock(watched_mutex());
  std::erase(watched_states(), state);
  if (watched_states().empty() && std::get_terminate() == on_terminate) std::set_terminate(previous.load());
}

}  // namespace

std::shared_ptr<void> watch_termination(State& state) {
  std::shared_ptr<State> watched(&state, forget);
  const std::lock_guard lock(watched_mutex());
  watched_states().push_back(&state);
  is_under_launcher.store(state.launcher.store() != nullptr);
  if (std::get_terminate() != on_terminate) previous.store(std::set_terminate(on_terminate));
  return watched;
}

}  // namespace unisono::context
