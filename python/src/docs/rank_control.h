#pragma once

#include "../docstrings.h"

// The docstrings of barriers, and of what one rank does alone or first.

namespace unisono::python::docs {

inline constexpr const char* barrier = R"(Waits until every rank of the group has entered it.

Parameters
----------
{group}
{timeout}
{tag}

Returns
-------
None, or Work
    A Work if `async_op` is True.

Raises
------
{mismatch}
{failures}

Examples
--------
>>> unisono.barrier()
>>> unisono.barrier(timeout=60))";

inline constexpr AsyncText barrier_async{.examples = R"(>>> work = unisono.barrier_async()
>>> other = sum(range(1000))           # computes meanwhile
>>> work.wait())"};

inline constexpr const char* monitored_barrier = R"(Waits until every rank has entered it, and names each rank that does not come.

Parameters
----------
timeout : float, timedelta or None
    The seconds to wait. None stands for half an hour.
{group}

Raises
------
Timeout
    If a rank does not come in time. `missing` lists all of them. The group has ended then.
Mismatch
    If another rank calls something else. The group stays usable.
PeerFailed
    If a rank is gone or has given up.
NotInitialized
    If the process was launched as one of several and has not called `initialize`.

Examples
--------
>>> unisono.monitored_barrier(60))";

/// Of both functions of that name.
inline constexpr const char* synchronize = R"(Waits for all ranks of a group; with an ElasticState brings them to one state as well.

`synchronize(group)` is a barrier. `synchronize(state, group)` brings all members to the state of
the one with the most steps; of several, that of the lowest rank. All members call it. The state
is put together beside the old one first, so that a member that fails meanwhile leaves no other
with a half of it.

Parameters
----------
state : ElasticState
    The state that is equal on all members.
group : ProcessGroup, optional
    The ranks that call. None stands for the world.

Returns
-------
None or int
    With a state the rank whose state it was.

Raises
------
InvalidArgument
    If another member cannot write or read its state. That member raises why, and the group
    stays usable.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> unisono.synchronize()
>>> state = unisono.ElasticState(weights=numpy.full(2, unisono.rank()))
>>> state.step = unisono.rank()
>>> unisono.synchronize(state)
1
>>> state.weights
array([1, 1]))";

inline constexpr const char* is_main_process = R"(Tells whether this process is rank 0 of a group.

Parameters
----------
group : ProcessGroup, optional
    None stands for the world.

Returns
-------
bool
    True on rank 0.

Raises
------
NotInitialized
    If the process was launched as one of several and has not called `initialize`.

Examples
--------
>>> if unisono.is_main_process():
...     log = [])";

inline constexpr const char* is_master_process = R"(Tells whether this process is rank 0 of the world.

Returns
-------
bool
    True on rank 0.

Raises
------
NotInitialized
    If the process was launched as one of several and has not called `initialize`.

Examples
--------
>>> unisono.is_master_process() == (unisono.rank() == 0)
True)";

inline constexpr const char* one_rank_first = R"(A scope that one rank passes first, while the others wait at its beginning.

All ranks of the group enter it.

Parameters
----------
rank : int or GlobalRank, default 0
    The rank that goes first.
local : bool, default False
    Whether `rank` is a local rank, so that one rank of each host goes first. A host without
    that local rank lets its last one go.
group : ProcessGroup, optional
    The ranks that enter. None stands for the world.

Attributes
----------
is_first : bool
    Whether this rank goes first (on its host).

Raises
------
InvalidArgument
    If there is no such rank.
PeerFailed
    On the others, if an exception leaves the scope of the first. The group stays usable.

Examples
--------
{two ranks}
>>> seen = []
>>> with unisono.OneRankFirst(local=True) as scope:
...     if scope.is_first:
...         seen.append("download")              # the others of the host find it there
>>> len(seen) == (1 if unisono.rank() == 0 else 0)
True)";

inline constexpr const char* gpu_mem_usage = R"(Tells how much memory this process has on its GPU.

Returns
-------
int
    MiB; 0 without a GPU.

See Also
--------
gpu_mem_peak : The most that was seen.

Examples
--------
>>> unisono.gpu_mem_usage() >= 0
True)";

inline constexpr const char* gpu_mem_peak = R"(Tells how much memory this process had on its GPU at most.

Returns
-------
int
    The most MiB that were seen; 0 without a GPU.

See Also
--------
gpu_mem_usage : The memory that it has now.

Examples
--------
>>> unisono.gpu_mem_peak() >= 0
True)";

}  // namespace unisono::python::docs
