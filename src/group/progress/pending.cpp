#include "group/progress/pending.h"

#include <iterator>
#include <utility>

namespace unisono::group {

void settle(detail::WorkState& state, const std::exception_ptr& error, const Arrival& arrival, bool is_collective, DeferredError& deferred,
            Remains& remains) {
  const std::lock_guard lock(state.mutex);
  if (!error && !state.completion) state.arrival = arrival;
  state.error = error;
  state.settled = true;
  std::move(state.then.begin(), state.then.end(), std::back_inserter(remains.callbacks));
  state.then.clear();
  state.went_well.store(!error, std::memory_order_release);
  if (error && state.dropped) deferred.set(error, is_collective ? state.dropped_after : DeferredError::no_queued_call);
  state.set_done();
  remains.any_done = true;
}

}  // namespace unisono::group
