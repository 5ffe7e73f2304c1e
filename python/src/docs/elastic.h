#pragma once

#include "../docstrings.h"

// The docstrings of jobs that go on without lost ranks.

namespace unisono::python::docs {

inline constexpr const char* elastic_state = R"(The state that is equal on all members of an elastic job: finished steps, buffers and objects.

Each thing that is listed is an attribute (state.weights), and state["any name"]; an object may
be assigned anew. A buffer is changed in place and has the same length and dtype on all members.
An object is what pickle takes, of any length. At `synchronize` a list, dict or set stays the
object that it is and gets the other's elements. An object with state_dict and load_state_dict (a
model, an optimizer) loads the other's. Any other object is replaced.

Parameters
----------
**entries : buffer or object
    Each is listed under its name: a buffer that can be written to as one, anything else as
    an object.

Attributes
----------
step : int
    The number of steps that are done. The program counts it up when a step is complete.

Methods
-------
buffer(name, x, done=None)
    Lists a buffer, or a function that returns it.
object(name, x)
    Lists an object.
bytes(name, write, read)
    Lists something that functions of the program write and read.

Raises
------
InvalidArgument
    If a name is listed twice, or is one of the class's own.

Examples
--------
>>> state = unisono.ElasticState(weights=numpy.zeros(3), losses=[])
>>> state.weights -= 0.5
>>> state.losses.append(0.25)
>>> state.step += 1
>>> state.step, state["losses"], "weights" in state
(1, [0.25], True))";

inline constexpr const char* state_buffer = R"(Lists a buffer, which is changed in place.

A buffer on a GPU (PyTorch, CuPy) travels as a copy in the host's memory.

Parameters
----------
name : str
    The name in the list.
x : buffer or callable
    The buffer, or a function that returns it at each `synchronize`.
done : callable, optional
    A function that is called at the end, with whether the elements are new.

Returns
-------
ElasticState
    The state itself.

Raises
------
InvalidArgument
    If the buffer is read-only, or the name is listed already.)";

inline constexpr const char* state_object = R"(Lists an object that pickle takes, or one with state_dict and load_state_dict.

Parameters
----------
name : str
    The name in the list.
x : object
    The object.

Returns
-------
ElasticState
    The state itself.

Raises
------
InvalidArgument
    If the name is listed already.)";

inline constexpr const char* state_bytes = R"(Lists something that functions of the program write and read, of any length.

Parameters
----------
name : str
    The name in the list.
write : callable
    A function that is called on the source and returns bytes.
read : callable
    A function that is called with the bytes on all others. It returns a function that puts in
    place what was read, or None; that one is called when all of the state is there.

Returns
-------
ElasticState
    The state itself.

Raises
------
InvalidArgument
    If one of these is not a function, or the name is listed already.)";

inline constexpr const char* newcomers_waiting = R"(Tells whether processes wait to be taken in, which were started in the place of lost ones.

All members call, and get the same answer.

Parameters
----------
group : ProcessGroup, optional
    The members. None stands for the world.

Returns
-------
bool
    False in a job that `unisono run -n MIN:MAX` has not started.

Raises
------
InvalidArgument
    For any other group than the world and what `shrink_group` has left of it.
{failures}

Examples
--------
>>> unisono.newcomers_waiting()
False)";

inline constexpr const char* grow_group = R"(Takes in the processes that wait, and returns the new world. All members call.

The members keep their order, and the newcomers come after them. `world`, `rank` and `world_size`
speak of the new world from then on. All groups of before end, and no other thread may be in a call.
A newcomer that has not come after 30 s is left out.

Parameters
----------
group : ProcessGroup
    The members.

Returns
-------
ProcessGroup
    The new world; `group` itself if no process waits, or none gets through.

Raises
------
InvalidArgument
    For any other group than the world and what `shrink_group` has left of it.
PeerFailed
    If a member is lost meanwhile. `shrink_group` makes a group of the survivors.
Timeout
    If a member does not come in time.

Examples
--------
>>> group = unisono.world()
>>> if unisono.newcomers_waiting(group):
...     group = unisono.grow_group(group)
>>> unisono.grow_group(group) == group           # nobody waits
True)";

inline constexpr const char* run_elastic = R"(Calls a step again and again, with the group of all processes there are, until it returns False.

Before a step newcomers are taken in. A step that raises PeerFailed is followed by
`shrink_group`; any other exception is raised. `synchronize` is called at the beginning, and after
both. A step that some members have completed and others not counts as completed.

Parameters
----------
state : ElasticState
    The state that is equal on all members.
step : callable
    A function of the group that returns True to be called again, and the same on all members.
    It changes what is listed only after its last call on the group, and counts `state.step`
    up at the end.

Returns
-------
ProcessGroup
    The last group.

Raises
------
InvalidArgument
    If `step` is not a function, or returns None.
Timeout
    If the others have gone on without this rank.
PeerFailed
    If the survivors find each other no more.

Examples
--------
{two ranks}
>>> state = unisono.ElasticState(total=0)
>>> def step(group):
...     if state.step == 3:
...         return False
...     total = state.total + unisono.all_reduce(1, group=group)
...     state.total = total
...     state.step += 1
...     return True
>>> group = unisono.run_elastic(state, step)
>>> state.total
6)";

}  // namespace unisono::python::docs
