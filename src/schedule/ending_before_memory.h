#pragma once

#include <exception>

#include <fmt/format.h>

#include "base/error_text.h"
#include "coordination/coordination.h"
#include "engines/signature.h"
#include "unisono/error.h"

namespace unisono::schedule {

/// Calls `f`, which advances a task. If an exception leaves it, the group is over: engines are told so while the memory of the task is still there,
/// from which a transfer may be half sent. A Mismatch and callables that differ leave the group as it is, since nothing was moved.
template <class F>
void ending_before_memory(coordination::Coordination& coordination, F&& f) {
  try {
    f();
  } catch (const Mismatch&) {
    throw;
  } catch (const engines::CallablesDiffer&) {
    throw;
  } catch (const GroupFailure& over) {
    coordination.poison(over.failure());
    throw;
  } catch (...) {
    const int rank = coordination.rank();
    coordination.poison({.kind = Failure::Kind::peer_failed,
                         .cause = PeerFailed::Cause::aborted,
                         .culprit = rank,
                         .missing = {},
                         .message = fmt::format("rank {} gave up: {}", rank, base::what_of(std::current_exception()))});
    throw;
  }
}

}  // namespace unisono::schedule
