#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/environment.h"
#include "context/formation.h"
#include "context/job.h"
#include "context/state.h"
#include "rendezvous/rendezvous.h"

namespace unisono::context {

/// Returns the timeout of calls. Throws InvalidArgument where it is not positive.
std::chrono::milliseconds timeout_of(const InitOptions& options, const base::Environment& environment);

/// Makes a world of one.
std::unique_ptr<State> alone();
/// Makes the state of a world whose members have met. Nobody is told of it yet. Collective.
std::unique_ptr<State> form_world(const InitOptions& options, const Terms& terms, const rendezvous::JobIdentity& identity, const Formation& formation,
                                  const base::Deadline& deadline);
/// Lets the log, the record and the launcher know that this process is that rank now.
void begin(State& state);

/// Meets the other processes and forms the world with them, or takes a place in a job that runs already. Collective.
std::unique_ptr<State> join(const InitOptions& options, const Terms& terms = {});

/// The name of the group of a world that form_part has made, by which errors tell it from the job's.
inline constexpr const char* name_of_part = "all workers";

/// Makes a world of some ranks of a world, which have numbers of their own in it: as if they were a job. Collective over them; all give the same key,
/// which no other part of that world has had.
std::unique_ptr<State> form_part(State& whole, const std::string& key, int rank, int size, const InitOptions& options);

/// Waits until the members of a running job take this process in, and joins them. `job.facts`: as `rendezvous::facts_of_newcomer` returns them.
std::unique_ptr<State> join_running_job(const Job& job);

/// Waits for the calls under way, says goodbye and ends the thread.
void leave(State& state, coordination::Leaving how);
/// Ends the state of a generation that is over; the job goes on.
void retire(State& state);
/// Ends after a failure, without waiting for any rank.
void abandon(State& state, coordination::Leaving how);
/// Tells the members of all groups of this rank that it gives up, and how: "ended with std::runtime_error: no such file". `blamed`: the rank of the
/// world that the reason names.
void give_up(State& state, std::string_view how, std::optional<int> blamed = {});

/// Has the other ranks told of an exception that nobody catches, as long as what it returns lives: its type and text. The process ends as it would
/// otherwise: the handler of std::terminate that was there before is called afterwards, and is put back at the end where no other has come since.
[[nodiscard]] std::shared_ptr<void> watch_termination(State& state);

}  // namespace unisono::context
