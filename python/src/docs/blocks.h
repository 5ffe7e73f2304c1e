#pragma once

#include "../docstrings.h"

// The docstrings of all_gather, gather, scatter, reduce_scatter and all_to_all.

namespace unisono::python::docs {

inline constexpr const char* all_gather = R"(Collects the blocks of all ranks on every rank, in group order.

Parameters
----------
x : buffer, number or object
    A buffer has the same length and dtype on every rank. It may be this rank's own block of
    `out`.
out : buffer or list of buffers, optional
    A buffer of size() blocks, or a list of size() buffers of one block. Without it a buffer
    `x` is gathered into a new array.
{group}
{timeout}
{tag}

Returns
-------
buffer, array or list
    `out`; without it a new array, whose first axis is the ranks and whose other axes are
    those of `x`. For a number or any other object a list, element r from rank r.

Raises
------
InvalidArgument
    If `out` has another length or dtype, is read-only, or overlaps `x` in another way.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> unisono.all_gather(numpy.arange(3) + 10 * unisono.rank())
array([[ 0,  1,  2],
       [10, 11, 12]])
>>> out = numpy.empty(2, dtype=int)
>>> unisono.all_gather(numpy.array([unisono.rank()]), out)
array([0, 1])
>>> unisono.all_gather(f"rank {unisono.rank()}")
['rank 0', 'rank 1'])";

inline constexpr AsyncText all_gather_async{.parameters = R"(x : buffer
    It has the same length and dtype on every rank.)",
                                            .examples = R"({two ranks}
>>> work = unisono.all_gather_async(numpy.full(2, unisono.rank()))
>>> work.result()
array([[0, 0],
       [1, 1]]))"};

inline constexpr const char* gather = R"(Collects the blocks of all ranks on rank `dst`, in group order.

Parameters
----------
x : buffer, number or object
    A buffer has the same length and dtype on every rank. On `dst` it may be its own block of
    `out`.
out : buffer or list of buffers, optional
    On `dst` a buffer of size() blocks, or a list of size() buffers of one block. Elsewhere it
    is ignored, stays as it is, and may be left out.
dst : int or GlobalRank, default 0
    The rank within the group that gets the result.
{group}
{timeout}
{tag}

Returns
-------
buffer, array, list or None
    On `dst` what `all_gather` returns; None on every other rank.

Raises
------
InvalidArgument
    If the group has no rank `dst`, or `out` has another length or dtype or is read-only.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> losses = unisono.gather(unisono.rank() + 0.5)
>>> losses == ([0.5, 1.5] if unisono.rank() == 0 else None)
True)";

inline constexpr AsyncText gather_async{.parameters = R"(x : buffer
    It has the same length and dtype on every rank. On `dst` it may be its own block of `out`.)",
                                        .examples = R"({two ranks}
>>> table = unisono.gather_async(numpy.full(3, unisono.rank())).result()
>>> table.tolist() == [[0, 0, 0], [1, 1, 1]] if unisono.rank() == 0 else table is None
True)"};

inline constexpr const char* scatter = R"(Shares out the blocks of rank `src`: rank r gets block r.

Parameters
----------
x : buffer, list of buffers or None
    On `src` a buffer of size() blocks of the length of `out`, or a list of size() buffers of
    that length. Elsewhere it is ignored and may be None.
out : buffer
    Gets this rank's block. On `src` it may be its own block of `x`.
src : int or GlobalRank, default 0
    The rank within the group whose blocks are shared out.
{group}
{timeout}
{tag}

Returns
-------
buffer
    `out`.

Raises
------
InvalidArgument
    If the group has no rank `src`, the lengths or dtypes do not fit, or `out` is read-only.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> table = numpy.arange(6.0) if unisono.rank() == 0 else None
>>> part = unisono.scatter(table, numpy.empty(3))
>>> part.tolist() == ([0, 1, 2] if unisono.rank() == 0 else [3, 4, 5])
True)";

inline constexpr AsyncText scatter_async{.examples = R"({two ranks}
>>> table = numpy.arange(6.0) if unisono.rank() == 0 else None
>>> part = unisono.scatter_async(table, numpy.empty(3)).result()
>>> part.tolist() == ([0, 1, 2] if unisono.rank() == 0 else [3, 4, 5])
True)"};

inline constexpr const char* reduce_scatter = R"(Combines the ranks' inputs block by block, and gives rank r block r of the result.

Parameters
----------
x : buffer
    size() blocks, of the same length and dtype on every rank.
out : buffer, optional
    Gets this rank's block of the result, and has its length. It may be this rank's own block
    of `x`.
{op}
{group}
{timeout}
{tag}
{deterministic}

Returns
-------
buffer or array
    `out`; without it a new array, whose first axis is that of `x` divided by size().

Raises
------
InvalidArgument
    If the first axis of `x` cannot be shared evenly and `out` is not given, if the lengths do
    not fit, or as in `all_reduce`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> gradients = numpy.arange(4.0)                # the same here on both ranks
>>> mine = unisono.reduce_scatter(gradients)
>>> mine.tolist() == ([0, 2] if unisono.rank() == 0 else [4, 6])
True)";

inline constexpr AsyncText reduce_scatter_async{.examples = R"({two ranks}
>>> work = unisono.reduce_scatter_async(numpy.arange(2.0))
>>> work.result().tolist() == [2 * unisono.rank()]
True)"};

inline constexpr const char* all_to_all = R"(Exchanges a block between every two ranks: block r of `x` goes to rank r.

Parameters
----------
x : buffer
    size() blocks, of the same length and dtype on every rank.
out : buffer, optional
    Has the length of `x` and does not overlap it. Its block r comes from rank r.
{group}
{timeout}
{tag}

Returns
-------
buffer or array
    `out`; without it a new array of the shape of `x`.

Raises
------
InvalidArgument
    If the length is not a multiple of size(), or `out` has another length or dtype, is read-only,
    or overlaps `x`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> to_each = numpy.array([0, 1]) + 10 * unisono.rank()
>>> from_each = unisono.all_to_all(to_each)
>>> from_each.tolist() == [unisono.rank(), 10 + unisono.rank()]
True)";

inline constexpr AsyncText all_to_all_async{.examples = R"({two ranks}
>>> work = unisono.all_to_all_async(numpy.array([0, 1]) + 10 * unisono.rank())
>>> work.result().tolist() == [unisono.rank(), 10 + unisono.rank()]
True)"};

}  // namespace unisono::python::docs
