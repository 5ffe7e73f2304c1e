#pragma once

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

}  // namespace unisono::context
