#pragma once

#include "../docstrings.h"

// The docstrings of all_reduce, reduce, broadcast, scan, exscan and mean.

namespace unisono::python::docs {

inline constexpr const char* all_reduce = R"(Combines the ranks' `x`, and gives every rank the result, bit for bit the same.

Parameters
----------
x : buffer, number or WithPlace
    A buffer has the same length and dtype on every rank and is worked on in place, whatever
    its strides. A number is not changed, and neither is a single pair.
{op}
{group}
out : buffer, optional
    Gets the result in place of `x`. It has the length of `x`, and is either the same memory
    or does not overlap it.
{timeout}
{tag}
{deterministic}

Returns
-------
buffer, number or WithPlace
    `out`, or `x` itself. For a number, and for an array that cannot be written to (JAX), a
    new one.

Raises
------
InvalidArgument
    If the call is wrong by itself, before anything is sent: an operation without a meaning
    for the dtype, a read-only output, or lengths that do not fit. Also for ints whose sum or
    product could need more than 64 bits, were every rank's as large: a result of ints is
    never wrapped.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> x = numpy.full(3, unisono.rank() + 1.0)
>>> unisono.all_reduce(x)
array([3., 3., 3.])
>>> unisono.all_reduce(unisono.rank(), "max")
1
>>> y = numpy.zeros(3)
>>> unisono.all_reduce(x, numpy.maximum, out=y) is y
True)";

inline constexpr AsyncText all_reduce_async{.parameters = R"(x : buffer or WithPlace
    A buffer, or a pair of arrays, of the same length and dtype on every rank. It is worked on
    in place.)",
                                            .examples = R"({two ranks}
>>> x = numpy.full(3, unisono.rank() + 1.0)
>>> work = unisono.all_reduce_async(x)
>>> other = sum(range(1000))           # computes meanwhile
>>> work.wait()
>>> x
array([3., 3., 3.]))"};

inline constexpr const char* reduce = R"(Combines the ranks' `x`, and gives rank `dst` alone the result.

Parameters
----------
x : buffer, number or WithPlace
    A buffer has the same length and dtype on every rank. It is worked on in place on `dst`,
    and stays as it is on all others, so that it may be read-only there.
dst : int or GlobalRank
    The rank within the group that gets the result.
{op}
{group}
{timeout}
{tag}
{deterministic}

Returns
-------
buffer, number, WithPlace or None
    On `dst` what `all_reduce` returns; None on every other rank.

Raises
------
InvalidArgument
    If the group has no rank `dst`, or as in `all_reduce`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> total = unisono.reduce(unisono.rank() + 1, 0)
>>> total == (3 if unisono.rank() == 0 else None)
True)";

inline constexpr AsyncText reduce_async{.parameters = R"(x : buffer
    It has the same length and dtype on every rank. It is worked on in place on `dst`, and
    stays as it is on all others, so that it may be read-only there.)",
                                        .examples = R"({two ranks}
>>> x = numpy.full(2, unisono.rank() + 1.0)
>>> unisono.reduce_async(x, 0).wait()
>>> x.tolist() == ([3, 3] if unisono.rank() == 0 else [2, 2])
True)"};

inline constexpr const char* broadcast = R"(Copies the `x` of rank `src` to all ranks.

Parameters
----------
x : buffer, number or object
    A buffer has the same length and dtype on every rank and is worked on in place; that of
    `src` may be read-only. A number has the same type on every rank. Any other object is
    pickled, if no rank gives a buffer or a number; `broadcast_object` takes any object,
    whatever the others give.
src : int or GlobalRank, default 0
    The rank within the group whose `x` counts.
{group}
{timeout}
{tag}

Returns
-------
buffer, number or object
    `x` itself if it is a buffer, otherwise the value of rank `src`.

Raises
------
InvalidArgument
    If the group has no rank `src`, or the output is read-only.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> weights = numpy.arange(3.0) if unisono.rank() == 0 else numpy.zeros(3)
>>> unisono.broadcast(weights)
array([0., 1., 2.])
>>> unisono.broadcast("resnet" if unisono.rank() == 0 else "")
'resnet')";

inline constexpr AsyncText broadcast_async{.parameters = R"(x : buffer
    It has the same length and dtype on every rank and is worked on in place; that of `src`
    may be read-only.)",
                                           .examples = R"({two ranks}
>>> x = numpy.full(2, unisono.rank())
>>> unisono.broadcast_async(x, src=1).wait()
>>> x.tolist()
[1, 1])"};

inline constexpr const char* scan = R"(Combines the `x` of the ranks 0 to rank(), this one included.

Parameters
----------
x : buffer, number or WithPlace
    A buffer has the same length and dtype on every rank and is worked on in place. A number
    is not changed.
{op}
{group}
{timeout}
{tag}
{deterministic}

Returns
-------
buffer, number or WithPlace
    `x` itself; for a number a new one.

Raises
------
InvalidArgument
    For "avg" and `premul_sum`, or as in `all_reduce`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> rows = 10                                    # of each rank
>>> after = unisono.scan(rows)                   # rows of this rank and all before it
>>> after == 10 * (unisono.rank() + 1)
True)";

inline constexpr AsyncText scan_async{.parameters = R"(x : buffer
    It has the same length and dtype on every rank and is worked on in place.)",
                                      .examples = R"({two ranks}
>>> x = numpy.ones(2)
>>> unisono.scan_async(x).wait()
>>> x.tolist() == [unisono.rank() + 1] * 2
True)"};

inline constexpr const char* exscan = R"(Combines the `x` of the ranks before this one, 0 to rank() - 1.

Parameters
----------
x : buffer or number
    A buffer has the same length and dtype on every rank and is worked on in place. On rank 0,
    which has no rank before it, `x` stays as it is.
{op}
{group}
{timeout}
{tag}
{deterministic}

Returns
-------
buffer or number
    `x` itself; for a number a new one. Rank 0 gets its own number.

Raises
------
InvalidArgument
    For "avg", `premul_sum` and a WithPlace, or as in `all_reduce`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> before = unisono.exscan(10)                  # each rank has ten rows
>>> offset = 0 if unisono.rank() == 0 else before
>>> offset == 10 * unisono.rank()                # where this rank's rows begin in a file
True)";

inline constexpr AsyncText exscan_async{.parameters = R"(x : buffer
    It has the same length and dtype on every rank and is worked on in place. On rank 0, which
    has no rank before it, it stays as it is.)",
                                        .examples = R"({two ranks}
>>> x = numpy.full(2, 5.0)
>>> unisono.exscan_async(x).wait()
>>> x                                            # of rank 0: on rank 1, and untouched on rank 0
array([5., 5.]))"};

inline constexpr const char* mean = R"(Computes the exact average of the ranks' numbers, rounded once.

Integers of any size neither wrap nor truncate, in contrast to `all_reduce(x, "avg")`.

Parameters
----------
x : int or float
    A number of the same type on every rank.
{group}
{timeout}
{tag}

Returns
-------
float
    The average, the same on every rank.

Raises
------
InvalidArgument
    For a bool and a complex number.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> unisono.mean(unisono.rank())
0.5)";

}  // namespace unisono::python::docs
