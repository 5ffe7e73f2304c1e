#pragma once

#include "../docstrings.h"

// The docstrings of the calls to which every process brings several buffers.

namespace unisono::python::docs {

inline constexpr const char* broadcast_multigpu = R"(Copies the first buffer of rank `src` to every buffer of every rank.

Parameters
----------
tensors : list of buffers
    As many on every rank, all of one dtype and length. None overlaps another.
src : int or GlobalRank
    The rank within the group whose tensors[0] counts.
{group}
{timeout}
{tag}

Returns
-------
list of buffers
    `tensors`.

Raises
------
InvalidArgument
    If the group has no rank `src`, or the buffers differ in length or dtype or overlap.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> x, y = numpy.full(2, unisono.rank() + 1), numpy.zeros(2, dtype=int)
>>> unisono.broadcast_multigpu([x, y], 1)
[array([2, 2]), array([2, 2])])";

inline constexpr AsyncText broadcast_multigpu_async{.examples = R"({two ranks}
>>> x, y = numpy.full(2, unisono.rank() + 1), numpy.zeros(2, dtype=int)
>>> unisono.broadcast_multigpu_async([x, y], 1).result()
[array([2, 2]), array([2, 2])])"};

inline constexpr const char* all_reduce_multigpu = R"(Combines all buffers of all ranks, and gives every buffer the result.

Parameters
----------
tensors : list of buffers
    As many on every rank, all of one dtype and length, worked on in place. None overlaps
    another.
{named_op}
{group}
{timeout}
{tag}

Returns
-------
list of buffers
    `tensors`.

Raises
------
InvalidArgument
    If the buffers differ in length or dtype or overlap, or the operation has no meaning for
    the dtype.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> unisono.all_reduce_multigpu([numpy.ones(2), numpy.ones(2)])
[array([4., 4.]), array([4., 4.])])";

inline constexpr AsyncText all_reduce_multigpu_async{.examples = R"({two ranks}
>>> unisono.all_reduce_multigpu_async([numpy.ones(2), numpy.ones(2)]).result()
[array([4., 4.]), array([4., 4.])])"};

inline constexpr const char* reduce_multigpu = R"(Combines all buffers of all ranks into the first buffer of rank `dst`.

Parameters
----------
tensors : list of buffers
    As many on every rank, all of one dtype and length. None overlaps another. All but
    tensors[0] of `dst` stay as they are.
dst : int or GlobalRank
    The rank within the group that gets the result.
{named_op}
{group}
{timeout}
{tag}

Returns
-------
list of buffers
    `tensors`.

Raises
------
InvalidArgument
    If the group has no rank `dst`, or as in `all_reduce_multigpu`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> x, y = unisono.reduce_multigpu([numpy.ones(2), numpy.ones(2)], 0)
>>> x.tolist() == ([4, 4] if unisono.rank() == 0 else [1, 1])
True)";

inline constexpr AsyncText reduce_multigpu_async{.examples = R"({two ranks}
>>> x, y = unisono.reduce_multigpu_async([numpy.ones(2), numpy.ones(2)], 0).result()
>>> x.tolist() == ([4, 4] if unisono.rank() == 0 else [1, 1])
True)"};

inline constexpr const char* all_gather_multigpu = R"(Collects all inputs of all ranks in every output.

Parameters
----------
outputs : list of buffers
    As many on every rank, each of size() * len(inputs) blocks of the length of an input.
    Block k * len(inputs) + j becomes inputs[j] of rank k.
inputs : list of buffers
    As many as there are outputs, all of one dtype and length.
{group}
{timeout}
{tag}

Returns
-------
list of buffers
    `outputs`.

Raises
------
InvalidArgument
    If the lengths or dtypes do not fit, or outputs overlap.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> inputs = [numpy.array([10 * unisono.rank() + j]) for j in range(2)]
>>> outputs = [numpy.empty(4, dtype=int) for j in range(2)]
>>> unisono.all_gather_multigpu(outputs, inputs)
[array([ 0,  1, 10, 11]), array([ 0,  1, 10, 11])])";

inline constexpr AsyncText all_gather_multigpu_async{.examples = R"({two ranks}
>>> inputs = [numpy.array([10 * unisono.rank() + j]) for j in range(2)]
>>> outputs = [numpy.empty(4, dtype=int) for j in range(2)]
>>> unisono.all_gather_multigpu_async(outputs, inputs).result()
[array([ 0,  1, 10, 11]), array([ 0,  1, 10, 11])])"};

inline constexpr const char* reduce_scatter_multigpu = R"(Combines all inputs of all ranks block by block, and gives each output its block.

Parameters
----------
outputs : list of buffers
    As many on every rank, all of one dtype and length. outputs[j] of rank k gets block
    k * len(outputs) + j of the result.
inputs : list of buffers
    As many as there are outputs, each of size() * len(outputs) blocks.
{named_op}
{group}
{timeout}
{tag}

Returns
-------
list of buffers
    `outputs`.

Raises
------
InvalidArgument
    If the lengths or dtypes do not fit, or as in `all_reduce_multigpu`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> inputs = [numpy.arange(4), 10 * numpy.arange(4)]
>>> outputs = [numpy.empty(1, dtype=int) for j in range(2)]
>>> x, y = unisono.reduce_scatter_multigpu(outputs, inputs)
>>> [x[0], y[0]] == ([0, 22] if unisono.rank() == 0 else [44, 66])
True)";

inline constexpr AsyncText reduce_scatter_multigpu_async{.examples = R"({two ranks}
>>> inputs = [numpy.arange(4), 10 * numpy.arange(4)]
>>> outputs = [numpy.empty(1, dtype=int) for j in range(2)]
>>> x, y = unisono.reduce_scatter_multigpu_async(outputs, inputs).result()
>>> [x[0], y[0]] == ([0, 22] if unisono.rank() == 0 else [44, 66])
True)"};

}  // namespace unisono::python::docs
