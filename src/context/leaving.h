#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "context/state.h"

namespace unisono::context {

/// Waits for the calls under way, says goodbye and ends the thread.
void leave(State& state, coordination::Leaving how);
/// Ends the state of a generation that is over; the job goes on.
void retire(State& state);
/// Ends after a failure, without waiting for any rank.
void abandon(State& state, coordination::Leaving how);
/// Tells the members of all groups of this rank that it gives up, and how: "ended with std::runtime_error: no such file". `blamed`: the rank of the
/// world that the reason names.
void give_up(State& state, std::string_view how, std::optional<int> blamed = {});

struct State;

/// Has the other ranks told of an exception that nobody catches, as long as what it returns lives: its type and text. The process ends as it would
/// otherwise: the handler of std::terminate that was there before is called afterwards, and is put back at the end where no other has come since.
[[nodiscard]] std::shared_ptr<void> watch_termination(State& state);

}  // namespace unisono::context
