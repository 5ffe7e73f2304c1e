#pragma once

#include "../docstrings.h"

// The docstrings of groups, and of the small types that calls take.

namespace unisono::python::docs {

inline constexpr const char* reduce_op = R"(A way to combine the elements of the ranks. Calls take its name as well: "sum".

A pair of an operation and a dtype that has no meaning is InvalidArgument.

Attributes
----------
sum, product
    Of every dtype. Integers wrap; on booleans they are or, and.
min, max
    Of every dtype but the complex ones. A NaN on any rank gives a NaN.
avg
    Of every dtype but boolean. Averages of integers are truncated toward zero.
band, bor, bxor
    Of integers and booleans.
land, lor
    Of every dtype but the complex ones. The result is 0 or 1.

Examples
--------
{two ranks}
>>> unisono.all_reduce(unisono.rank() + 1, unisono.ReduceOp.product)
2)";

inline constexpr const char* premul_sum_class = R"(A sum of what the ranks have, each multiplied by a factor of its rank: see `premul_sum`.

Attributes
----------
factor : float
    The factor of this rank.

Examples
--------
>>> unisono.premul_sum(0.5).factor
0.5)";

inline constexpr const char* premul_sum = R"(Makes the operation that sums what the ranks have, each multiplied by its rank's own factor.

Parameters
----------
factor : float
    The factor of this rank.

Returns
-------
PremulSum
    An operation for every call that takes a ReduceOp, except `scan` and `exscan`.

Examples
--------
{two ranks}
>>> unisono.all_reduce(numpy.full(2, 3.0), unisono.premul_sum(0.5))
array([3., 3.]))";

inline constexpr const char* parse_reduce_op = R"(Returns the ReduceOp of a name in any case.

Parameters
----------
text : str
    The name here or in another library: "SUM", "PROD", "MEAN", "AVERAGE", "AND", "BAND".

Returns
-------
ReduceOp
    The operation.

Raises
------
InvalidArgument
    For any other text.

Examples
--------
>>> unisono.parse_reduce_op("Mean").name
'avg')";

inline constexpr const char* global_rank = R"(A rank within the world, where a call would otherwise take a rank within its group.

Parameters
----------
value : int
    The rank within the world.

Attributes
----------
value : int
    The rank within the world.

Examples
--------
{two ranks}
>>> backward = unisono.new_group([1, 0])
>>> unisono.broadcast(unisono.rank(), unisono.GlobalRank(1), backward)
1
>>> unisono.broadcast(unisono.rank(), 1, backward)
0)";

inline constexpr const char* process_group = R"(A set of processes that call together. It is a cheap handle; copies share the group.

Every rank calls the group's collectives in the same order. `world` is the group of all
processes; `new_group`, `split_group` and `local_group` make others. A group ends with its last
handle.

Methods
-------
rank()
    Returns this process's rank within the group.
size()
    Returns how many processes it has.
name()
    Returns its name in messages: "world".
backend()
    Returns the name of its backend: "native".
global_ranks()
    Returns the ranks of its members within the world, in group order.
contains(rank)
    Tells whether a GlobalRank is a member.
rank_of(rank)
    Returns the rank within the group of a GlobalRank; None if it is not a member.
global_rank(group_rank)
    Returns the rank within the world of a rank of the group.
abort(reason)
    Ends the group for all its members: their pending and later calls raise PeerFailed.

Examples
--------
{two ranks}
>>> backward = unisono.new_group([1, 0])
>>> backward.size(), backward.global_ranks()
(2, [1, 0])
>>> backward.rank() == 1 - unisono.rank()
True)";

inline constexpr const char* contains = R"(Tells whether a process of the world is a member.

Parameters
----------
rank : GlobalRank
    Its rank within the world.

Returns
-------
bool
    True for a member.)";

inline constexpr const char* rank_of = R"(Returns the rank within the group of a process of the world.

Parameters
----------
rank : GlobalRank
    Its rank within the world.

Returns
-------
int or None
    None if it is not a member.)";

inline constexpr const char* global_rank_of = R"(Returns the rank within the world of a rank of the group.

Parameters
----------
group_rank : int
    A rank within the group.

Returns
-------
int
    The rank within the world.

Raises
------
InvalidArgument
    If the group has no such rank.)";

inline constexpr const char* abort = R"(Ends the group for all its members. The call of a single rank is enough.

Parameters
----------
reason : str
    The text of the PeerFailed that their pending and later calls raise.)";

inline constexpr const char* world = R"(Returns the group of all processes of the job; inside `run_threads`, of all its threads.

Returns
-------
ProcessGroup
    A group of one in a process that was not launched.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
{two ranks}
>>> unisono.world().size(), unisono.world().name()
(2, 'world'))";

inline constexpr const char* new_group = R"(Forms a group of some processes of the world, whose ranks are in the order given.

Only the members need to call, each with the same list. The call waits for all of them.

Parameters
----------
global_ranks : iterable of int, optional
    The ranks of the members within the world. None stands for all of them.
backend : str, default ""
    The backend of the group, the same on all members; "" stands for the world's.
timeout : float or timedelta, optional
    The seconds in which the group is formed, and those of its calls. None stands for the
    world's timeout.

Returns
-------
ProcessGroup or None
    None for a process that is not a member.

Raises
------
InvalidArgument
    For no ranks, for a rank twice, for a rank outside the world, and for different backends.
BackendUnavailable
    If the members cannot use the backend.
Timeout
    If a member does not come in time.
PeerFailed
    If a member is gone.
NotInitialized
    If the process was launched as one of several and has not called `initialize`.

Examples
--------
{two ranks}
>>> evens = unisono.new_group(range(0, unisono.world_size(), 2))
>>> evens.size() == 1 if unisono.rank() % 2 == 0 else evens is None
True)";

inline constexpr const char* split_group = R"(Splits a group into one group for each color. All ranks of the parent call.

Parameters
----------
parent : ProcessGroup
    The group that is split.
color : int
    The ranks with the same color form a group. A rank with a negative color joins none.
key : int, default 0
    The ranks of a group are ordered by their keys, then by their ranks in the parent.
backend : str, default ""
    The backend of the new groups; "" stands for the parent's.
timeout : float or timedelta, optional
    The seconds in which the group is formed, and those of its calls. None stands for the
    parent's timeout.

Returns
-------
ProcessGroup or None
    None for a negative color.

Raises
------
InvalidArgument
    For different backends.
BackendUnavailable
    If the members cannot use the backend.
{failures}

Examples
--------
{two ranks}
>>> row = unisono.split_group(unisono.world(), color=0, key=-unisono.rank())
>>> row.global_ranks()
[1, 0])";

inline constexpr const char* local_group = R"(Returns the group of the processes of this host, in the order of the world.

All processes of the host make the first call. Later calls return the same group.

Returns
-------
ProcessGroup
    The group.

Raises
------
{failures}

Examples
--------
>>> unisono.local_group().size() == unisono.nproc_per_node()
True)";

inline constexpr const char* shrink_group = R"(Forms a group of the members that are left after a failure, in the old order.

All survivors call. A member that does not call within the group's timeout, and 30 s at most, is
left out.

Parameters
----------
group : ProcessGroup
    The group that has failed, or of which a member has died.

Returns
-------
ProcessGroup or None
    None for a rank that the others have given up.

Raises
------
InvalidArgument
    If nothing has happened to the group.
{failures}

Examples
--------
{two ranks}
>>> group = unisono.new_group()
>>> if unisono.rank() == 1:
...     group.abort("out of memory")
>>> try:
...     unisono.barrier(group)
... except unisono.PeerFailed:
...     group = unisono.shrink_group(group)
>>> group.size()
2)";

}  // namespace unisono::python::docs
