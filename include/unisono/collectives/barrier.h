#pragma once

#include <initializer_list>
#include <source_location>

#include "unisono/detail/refusals.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/work.h"

// Collectives that move no elements and make the ranks of a group wait for each other.

namespace unisono {

/// Returns once every rank of the group has called it.
///
/// Work that a device has been given before is not waited for; synchronize_stream in cuda.h waits
/// for it.
///
/// @throws Timeout after the call's deadline; Timeout::missing names the ranks that did not come
UNISONO_API void barrier(const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Starts a barrier and returns at once. The Work is done once every rank of the group has started
/// it.
[[nodiscard]] UNISONO_API Work barrier_async(const ProcessGroup& group = current_world(), const CallOptions& options = {});

/// Makes a barrier with a deadline of its own, for finding ranks that hang.
///
/// If the deadline passes, Timeout::missing names every rank that did not come. As any Timeout it
/// ends the group for good. In torch.distributed only rank 0 reports them, and only with Gloo; here
/// every rank does, with every backend.
UNISONO_API void monitored_barrier(std::chrono::milliseconds timeout, const ProcessGroup& group = current_world(),
                                   std::source_location where = std::source_location::current());

/// Makes a barrier. The name is that of virtex.utils.distributed; the function differs from barrier()
/// only in the options.
UNISONO_API void synchronize(const ProcessGroup& group = current_world(), std::source_location where = std::source_location::current());

/// Refuses options, an optional group or a list of ranks in the place of the group, with a sentence
/// from the compiler.
template <class G, class... Rest>
requires detail::misplaced_group<G>
void barrier(G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <class... Rest>
void barrier(std::initializer_list<int>, Rest&&...) {
  detail::refuse_as_group<detail::RankList<Rest...>>();
}

}  // namespace unisono
