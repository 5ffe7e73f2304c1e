#include "context/termination.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <vector>

#include "base/error_text.h"
#include "base/thread.h"
#include "context/leaving.h"
#include "context/state.h"
#include "engines/decision.h"

namespace unisono::context {
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
