// Takes processes that the launcher has started into a job that runs: grow_group for its members, and initialize for them.
//
// The world is formed anew, with the survivors in their order and the newcomers behind them, in a part of the store that belongs to this generation
// alone. All of them get it or none (rendezvous/growth.h). Only then does it take the place of the world before.
#include "context/world.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/error_place.h"
#include "base/error_text.h"
#include "base/log.h"
#include "base/thread.h"
#include "context/formation.h"
#include "rendezvous/growth.h"
#include "store/wrappers.h"
#include "unisono/detail/request.h"
#include "unisono/elastic.h"

namespace unisono {
namespace context {
namespace {

using rendezvous::Decision;
using rendezvous::GenerationPlan;
using rendezvous::GrowthKeys;
using namespace std::chrono_literals;

/// The members of a job that grows wait at most so long for those that have come.
constexpr auto longest_growth = std::chrono::milliseconds(30s);

constexpr base::Reminder::Pace pace_of_reminder = {30s, 30s};

/// The outcome of a generation for a member: its world, or why there is none.
struct Attempted {
  std::unique_ptr<State> state = {};
  std::exception_ptr error = {};  ///< that this member itself met
  Decision decision = {};
  std::shared_ptr<store::OwnKeysStore> keys = {};  ///< the job's store, in which the members have met
};

/// Returns the rank that an error of forming a generation blames: this one where it blames no other.
int culprit_of(const std::exception_ptr& error, int rank) {
  try {
    std::rethrow_exception(error);
  } catch (const Timeout& late) {
    return late.missing().empty() ? rank : late.missing().front();
  } catch (const Error& failed) {
    return failed.culprit().value_or(rank);
  } catch (...) {
    return rank;
  }
}

/// `store`: the job's.
std::unique_ptr<State> form(const Job& job, const rendezvous::JobIdentity& identity, const std::shared_ptr<Store>& store,
                            const base::Deadline& deadline, const std::function<void()>& look) {
  Formation::Parts parts{.operation = "grow_group", .group = {}, .rank = identity.rank, .size = identity.world_size, .store = {}};
  parts.hosts = rendezvous::host_names(identity.members);
  parts.store = std::make_shared<PrefixStore>(GrowthKeys::prefix(identity.growth.generation) + "world", store);
  parts.look = look;
  Formation formation(std::move(parts));
  try {
    return form_world(job.options, job.terms, identity, formation, deadline);
  } catch (...) {
    formation.give_up(std::current_exception());
    throw;
  }
}

/// Forms the world of a generation; all its members call. `look` throws where another member is known to be dead.
Attempted form_generation(const Job& job, const GenerationPlan& generation, int rank, const std::function<void()>& look) {
  const std::shared_ptr<Store>& store = job.facts.growth.store;
  GrowthKeys keys(*store);
  const base::Deadline deadline(generation.timeout);
  const auto watch = [&] {
    look();
    keys.look(generation, rank);
  };
  Attempted attempted;
  attempted.keys = std::make_shared<store::OwnKeysStore>(store);
  try {
    const auto identity = rendezvous::meet_generation(job.facts, attempted.keys, generation, rank, deadline, watch, base::Environment::process());
    attempted.state = form(job, identity, attempted.keys, deadline, watch);
    keys.ready(generation);
    for (bool waits = true; waits;) {
      try {
        attempted.decision = keys.await_decision(generation, std::min<std::chrono::milliseconds>(deadline.left(), 100ms));
        waits = false;
      } catch (const Timeout&) {
        watch();
        if (deadline.passed()) throw;
      }
    }
  } catch (...) {
    attempted.error = std::current_exception();
    attempted.decision = keys.abandon(generation, culprit_of(attempted.error, rank), base::message_of(attempted.error));
  }
  if (attempted.decision.formed && attempted.state) {
    attempted.error = nullptr;
    return attempted;
  }
  if (attempted.state) abandon(*attempted.state, coordination::Leaving::in_order);
  attempted.state.reset();
  if (attempted.decision.culprit != rank) attempted.error = nullptr;
  base::debug(fmt::format("generation {} of the job was given up: {}", generation.number, attempted.decision.text));
  return attempted;
}

/// Returns the largest of the numbers that the members bring: the number of one of them, where the others bring 0.
std::int64_t agree(std::int64_t own, std::string_view label, const ProcessGroup& group, std::source_location where) {
  std::array<std::int64_t, 1> number{own};
  const TensorView view(number.data(), DType::int64, number.size());
  detail::run({.operation = Operation::all_reduce, .in = view, .out = view, .op = ReduceOp::max, .label = label}, group, {.where = where});
  return number.front();
}

/// Returns the processes that wait, as the lowest member sees them; none on the others.
std::vector<rendezvous::Newcomer> waiting(State& state, const ProcessGroup& group) {
  if (group.rank() != 0) return {};
  return GrowthKeys(*state.job.facts.growth.store).waiting(state.tickets_done);
}

/// Throws where the group cannot grow, on all members alike.
void check(const State& state, const ProcessGroup& group, const char* operation) {
  if (state.whole == group.implementation()) return;
  throw InvalidArgument("only the group of all processes of the job grows: the world, or what shrink_group has left of it",
                        {.operation = operation, .group = group.name(), .rank = group.rank()});
}

/// Throws PeerFailed where a member of the group has died or failed.
void look_at_members(const ProcessGroup& group) {
  coordination::Coordination& coordination = group.implementation()->coordination();
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  std::iota(all.begin(), all.end(), 0);
  auto failure = coordination.failure();
  if (!failure) failure = coordination.detector().look_at(all);
  if (!failure) return;
  throw PeerFailed(failure->message, {.operation = "grow_group", .group = group.name(), .rank = group.rank(), .culprit = failure->culprit},
                   failure->cause);
}

/// Throws, on all members, why the group has not grown, unless a newcomer is to blame.
void judge(const Attempted& attempted, const ProcessGroup& group, std::source_location where) {
  if (attempted.error) {
    group.implementation()->errors().end("could not form the group anew: " + base::message_of(attempted.error));
    std::rethrow_exception(attempted.error);
  }
  // A member that has died, or has given the group up, ends it: this call throws that on all the others.
  detail::run({.operation = Operation::barrier, .in = detail::nothing(), .out = detail::nothing(), .label = "grow_group"}, group, {.where = where});
}

/// Makes the world of a generation this process's own. All its members have left the world before the one that ends now, by then: they have formed
/// this one with what came after it. So nobody reads the keys of that world any more but a process that was left out, which `shrink_group` refuses.
void take_over(State& before, Attempted& attempted) {
  const auto over = attempted.state->keys.follow(before.keys);
  attempted.state->keys.add(std::move(attempted.keys));
  replace_own(std::move(attempted.state));
  try {
    for (const auto& keys : over) keys->erase_own();
  } catch (const std::exception& error) {  // the next call that needs the store says so
    base::log(base::LogLevel::debug, error.what());
  }
}

ProcessGroup grow(const ProcessGroup& group, std::source_location where) {
  State& state = current();
  check(state, group, "grow_group");
  if (!state.job.can_grow()) return group;
  GrowthKeys keys(*state.job.facts.growth.store);
  for (;;) {
    std::int64_t called = 0;
    if (const auto newcomers = waiting(state, group); !newcomers.empty()) {
      called =
          keys.call(state.job.names_of(group.global_ranks()), newcomers, std::min(group.implementation()->facts().timeout(), longest_growth)).number;
    }
    const std::int64_t number = agree(called, "grow_group", group, where);
    if (number == 0) return group;
    const GenerationPlan generation = keys.read(static_cast<int>(number));
    Attempted attempted = form_generation(state.job, generation, group.rank(), [&] { look_at_members(group); });
    if (attempted.state) {
      take_over(state, attempted);
      return *current().world;
    }
    state.keys.add(std::move(attempted.keys));
    base::set_log_rank(fmt::format("rank {}", state.rank));
    judge(attempted, group, where);
  }
}

}  // namespace

std::unique_ptr<State> join_running_job(const Job& job) {
  const std::string& own_name = job.facts.growth.own_name;
  GrowthKeys keys(*job.facts.growth.store);
  const std::int64_t ticket = keys.ask(own_name);
  GenerationKeys made;
  for (int call = 0;; ++call) {
    std::optional<base::Reminder> reminder(
        std::in_place, pace_of_reminder, [] { return std::string("initialize waits for the running ranks to take this process in (grow_group)"); },
        [](const std::string& text) { base::warn(text); });
    const GenerationPlan generation = keys.await_call(ticket, call);
    reminder.reset();
    const auto own = std::ranges::find(generation.names, own_name);
    if (own == generation.names.end()) throw ProtocolError("this process was called to a generation of which it is not a member");
    const int rank = static_cast<int>(own - generation.names.begin());
    Attempted attempted = form_generation(job, generation, rank, [] {});
    made.add(std::move(attempted.keys));
    if (attempted.state) {
      attempted.state->keys = std::move(made);
      begin(*attempted.state);
      return std::move(attempted.state);
    }
    if (attempted.error) std::rethrow_exception(attempted.error);
  }
}

}  // namespace context

bool newcomers_waiting(const ProcessGroup& group, std::source_location where) {
  return base::with_place(where, [&] {
    context::State& state = context::current();
    context::check(state, group, "newcomers_waiting");
    if (!state.job.can_grow()) return false;
    return context::agree(context::waiting(state, group).empty() ? 0 : 1, "newcomers_waiting", group, where) != 0;
  });
}

ProcessGroup grow_group(const ProcessGroup& group, std::source_location where) {
  return base::with_place(where, [&] { return context::grow(group, where); });
}

}  // namespace unisono
