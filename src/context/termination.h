#pragma once

#include <memory>

namespace unisono::context {

struct State;

/// Has the other ranks told of an exception that nobody catches, as long as what it returns lives: its type and text. The process ends as it would
/// otherwise: the handler of std::terminate that was there before is called afterwards, and is put back at the end where no other has come since.
[[nodiscard]] std::shared_ptr<void> watch_termination(State& state);

}  // namespace unisono::context
