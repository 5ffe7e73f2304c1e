#pragma once

#include "../docstrings.h"

// The docstrings of calls on many buffers at once, and of the seed that all ranks share.

namespace unisono::python::docs {

inline constexpr const char* average_across_processes = R"(Averages a buffer, a number or the entries of a dictionary over the ranks.

Parameters
----------
x : buffer, number or dict of str to buffer or number
    Buffers have the same length and dtype on every rank. The entries of a dictionary are
    paired by key, whatever their order. Averages of integers are truncated toward zero.
{group}
{timeout}
{tag}

Returns
-------
buffer, number or dict
    `x` itself, worked on in place; for a number a new one.

Raises
------
InvalidArgument
    If a key is not a str, or a buffer is read-only or of a dtype without averages.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> unisono.average_across_processes({"loss": unisono.rank() + 0.5, "accuracy": 0.75})
{'loss': 1.0, 'accuracy': 0.75})";

inline constexpr const char* all_reduce_dict = R"(Combines the entries of a dictionary over the ranks, key by key, in place.

Parameters
----------
entries : dict of str to buffer or number
    The same keys on every rank, in any order, with the same dtypes and shapes.
{named_op}
{group}
{timeout}
{tag}

Returns
-------
dict
    `entries`.

Raises
------
InvalidArgument
    If a key is not a str, a buffer is read-only, or as in `all_reduce`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> unisono.all_reduce_dict({"right": 3, "seen": 5 + unisono.rank()})
{'right': 6, 'seen': 11})";

inline constexpr const char* all_reduce_params = R"(Combines many buffers over the ranks, each in place, in few operations.

Parameters
----------
params : iterable of buffers
    As many on every rank, in the same order, with the same dtypes and shapes. A generator is
    gone through once.
coalesce : bool, default True
    Whether the buffers of one dtype travel together. Otherwise each is an operation by itself.
bucket_size_mb : int, default -1
    The MiB of buffers that travel together. -1 stands for all of a dtype.
{named_op}
{group}
{timeout}
{tag}

Raises
------
InvalidArgument
    If the bucket size is 0 or less than -1, a buffer is read-only, or as in `all_reduce`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> gradients = [numpy.full(2, float(unisono.rank())), numpy.ones(1)]
>>> unisono.all_reduce_params(gradients, op="avg")
>>> gradients
[array([0.5, 0.5]), array([1.])])";

inline constexpr const char* sync_random_seed = R"(Draws a seed on rank 0 from the system, and returns it on all ranks.

The state of no generator is changed.

Parameters
----------
{group}
{timeout}
{tag}

Returns
-------
int
    A number from 0 to 2**31 - 1, the same on all ranks.

Raises
------
{mismatch}
{failures}

Examples
--------
>>> random = numpy.random.default_rng(unisono.sync_random_seed())
>>> order = random.permutation(5)                # the same on all ranks
>>> len(set(unisono.all_gather_object(tuple(order))))
1)";

}  // namespace unisono::python::docs
