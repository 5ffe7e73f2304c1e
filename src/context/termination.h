#pragma once

namespace unisono::context {

struct State;

/// Has the other ranks told of an exception that nobody catches, as long as the state lives: its type and text. The process ends as it would
/// otherwise: the handler of std::terminate that was there before is called afterwards.
void watch_termination(State& state);
/// Ends that. The handler of before is put back where no other has come since.
void forget_termination(const State& state);

}  // namespace unisono::context
