#include "engines/shm/copy_tuner.h"

#include <algorithm>
#include <bit>

namespace unisono::engines::shm {
namespace {

/// Returns the number of a kind of call; nullopt of one that has one way only, or in which each rank decides for itself.
std::optional<std::size_t> kind_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce: return 0;
    case Operation::reduce: return 1;
    case Operation::broadcast: return 2;
    case Operation::all_gather:
    case Operation::all_gather_v: return 3;
    case Operation::gather:
    case Operation::gather_v: return 4;
    case Operation::scatter:
    case Operation::scatter_v: return 5;
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v: return 6;
    case Operation::all_to_all: return 7;
    case Operation::barrier:
    case Operation::scan:
    case Operation::exscan:
    case Operation::all_to_all_v:
    case Operation::send:
    case Operation::recv: return std::nullopt;
  }
  return std::nullopt;
}

CopyTuner::Method other_than(CopyTuner::Method method) {
  return method == CopyTuner::Method::read ? CopyTuner::Method::staged : CopyTuner::Method::read;
}

}  // namespace

std::optional<CopyTuner::Cell> CopyTuner::cell_of(Operation operation, std::size_t bytes) {
  const auto kind = kind_of(operation);
  if (!kind || bytes < least_bytes) return std::nullopt;
  const auto size = static_cast<std::size_t>(std::bit_width(bytes) - std::bit_width(least_bytes));
  return static_cast<Cell>(*kind * sizes + std::min(size, sizes - 1));
}

CopyTuner::Method CopyTuner::method(Cell cell, Method by_rule) const {
  const State& state = states_[cell];
  if (state.pause == 0) return by_rule;
  return state.tries() ? other_than(state.method) : state.method;
}

void CopyTuner::ended(Cell cell, Method method, Method by_rule) {
  State& state = states_[cell];
  if (state.pause == 0) state = {.method = by_rule, .pause = first_pause};
  const bool tries = state.tries();
  const bool is_first = tries ? state.calls == state.pause : state.calls == 0;
  const bool is_recent = state.calls + trial_calls >= state.pause;  // old times may be those of another state of the machine
  last_ = Last{.cell = cell, .method = method, .counts = !is_first && is_recent, .ends_trial = tries && state.calls + 1 == state.pause + trial_calls};
  ++state.calls;
}

void CopyTuner::measured(std::optional<Ticks> time) {
  if (!last_) return;
  State& state = states_[last_->cell];
  Ticks& least = last_->method == state.method ? state.best : state.other;
  if (last_->counts && time) least = std::min(least, *time);
  if (last_->ends_trial) decide(state);
  last_.reset();
}

void CopyTuner::decide(State& state) const {
  const bool changes = state.best != none && state.other != none && state.other < gain_ * state.best;
  if (changes) state.method = other_than(state.method);
  state.pause = changes ? pause_after_change : std::clamp<std::uint16_t>(2 * state.pause, pause_after_change, longest_pause);
  state.calls = 0;
  state.best = state.other = none;
}

}  // namespace unisono::engines::shm
