#pragma once

#include "../docstrings.h"

// The docstrings of the collectives whose blocks differ in length.

namespace unisono::python::docs {

inline constexpr const char* all_gather_v = R"(Collects blocks of different length on every rank, one behind the other in group order.

If each rank knows its own length alone, `out` and `counts` are left out, and the call exchanges the
lengths.

Parameters
----------
x : buffer
    counts[rank()] elements. It may be this rank's own block of `out`.
out : buffer, optional
    As many elements as the counts sum up to.
counts : iterable of int, optional
    The elements of each rank, the same on all of them. It is given together with `out`, or
    neither is.
{group}
{timeout}
{tag}

Returns
-------
buffer, or tuple of array and list of int
    `out`; without it a new array with one axis of all elements, and the counts.

Raises
------
InvalidArgument
    If `out` or `counts` is given alone, or the lengths or dtypes do not fit.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> rows = numpy.full(unisono.rank() + 1, unisono.rank())
>>> unisono.all_gather_v(rows)
(array([0, 1, 1]), [1, 2])
>>> unisono.all_gather_v(rows, numpy.empty(3, dtype=int), counts=[1, 2])
array([0, 1, 1]))";

inline constexpr AsyncText all_gather_v_async{.parameters = R"(out : buffer
    As many elements as the counts sum up to.
counts : iterable of int
    The elements of each rank, the same on all of them. They are copied.)",
                                              .examples = R"({two ranks}
>>> rows = numpy.full(unisono.rank() + 1, unisono.rank())
>>> unisono.all_gather_v_async(rows, numpy.empty(3, dtype=int), [1, 2]).result()
array([0, 1, 1]))"};

inline constexpr const char* gather_v = R"(Collects blocks of different length on rank `dst`, one behind the other.

If each rank knows its own length alone, `out` and `counts` are left out, and the call exchanges the
lengths.

Parameters
----------
x : buffer
    counts[rank()] elements.
out : buffer, optional
    On `dst` as many elements as the counts sum up to. Elsewhere it is ignored. With counts
    and without it `dst` gets a new array.
counts : iterable of int, optional
    The elements of each rank, the same on all of them.
dst : int or GlobalRank, default 0
    The rank within the group that gets the result.
{group}
{timeout}
{tag}

Returns
-------
buffer or None, or tuple of array or None and list of int
    On `dst` the output, and None on every other rank. Without counts a pair of it and the
    counts, which all ranks get.

Raises
------
InvalidArgument
    If `out` is given without counts, or the lengths or dtypes do not fit.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> rows, counts = unisono.gather_v(numpy.full(unisono.rank() + 1, unisono.rank()))
>>> counts
[1, 2]
>>> rows.tolist() == [0, 1, 1] if unisono.rank() == 0 else rows is None
True)";

inline constexpr AsyncText gather_v_async{.parameters = R"(out : buffer or None
    On `dst` as many elements as the counts sum up to; None for a new array. Elsewhere it is
    ignored.
counts : iterable of int
    The elements of each rank, the same on all of them. They are copied.)",
                                          .examples = R"({two ranks}
>>> rows = numpy.full(unisono.rank() + 1, unisono.rank())
>>> table = unisono.gather_v_async(rows, None, [1, 2]).result()
>>> table.tolist() == [0, 1, 1] if unisono.rank() == 0 else table is None
True)"};

inline constexpr const char* scatter_v = R"(Shares out blocks of different length of rank `src`: rank r gets counts[r] elements.

Parameters
----------
x : buffer or None
    On `src` as many elements as the counts sum up to, the blocks one behind the other.
    Elsewhere it is ignored and may be None.
counts : iterable of int
    The elements of each rank, the same on all of them.
out : buffer
    counts[rank()] elements, which get this rank's block.
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
>>> table = numpy.arange(3) if unisono.rank() == 0 else None
>>> part = unisono.scatter_v(table, [1, 2], numpy.empty(unisono.rank() + 1, dtype=int))
>>> part.tolist() == ([0] if unisono.rank() == 0 else [1, 2])
True)";

inline constexpr AsyncText scatter_v_async{.examples = R"({two ranks}
>>> table = numpy.arange(3) if unisono.rank() == 0 else None
>>> part = numpy.empty(unisono.rank() + 1, dtype=int)
>>> unisono.scatter_v_async(table, [1, 2], part).wait()
>>> part.tolist() == ([0] if unisono.rank() == 0 else [1, 2])
True)"};

inline constexpr const char* reduce_scatter_v = R"(Combines the ranks' inputs, and gives rank r its block of counts[r] elements of the result.

Parameters
----------
x : buffer
    As many elements as the counts sum up to: a block for each rank.
counts : iterable of int
    The elements of each rank, the same on all of them.
out : buffer
    counts[rank()] elements, which get this rank's block of the result.
{op}
{group}
{timeout}
{tag}
{deterministic}

Returns
-------
buffer
    `out`.

Raises
------
InvalidArgument
    If the lengths or dtypes do not fit, or as in `all_reduce`.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> mine = numpy.empty(unisono.rank() + 1)
>>> unisono.reduce_scatter_v(numpy.arange(3.0), [1, 2], mine) is mine
True
>>> mine.tolist() == ([0] if unisono.rank() == 0 else [2, 4])
True)";

inline constexpr AsyncText reduce_scatter_v_async{.examples = R"({two ranks}
>>> mine = numpy.empty(unisono.rank() + 1)
>>> unisono.reduce_scatter_v_async(numpy.arange(3.0), [1, 2], mine).wait()
>>> mine.tolist() == ([0] if unisono.rank() == 0 else [2, 4])
True)"};

inline constexpr const char* all_to_all_v = R"(Exchanges blocks of different length between every two ranks.

If only the sender knows how much it sends, `out` and `recv_counts` are left out, and the call
exchanges the lengths.

Parameters
----------
x : buffer
    The blocks for all ranks, one behind the other: send_counts[r] elements for rank r.
send_counts : iterable of int
    The elements that this rank sends to each rank.
out : buffer, optional
    Gets recv_counts[r] elements from each rank r, in group order. It does not overlap `x`.
recv_counts : iterable of int, optional
    The elements that come from each rank. They are given together with `out`, or neither is.
{group}
{timeout}
{tag}

Returns
-------
buffer, or tuple of array and list of int
    `out`; without it a new array with one axis of what has come, and the counts.

Raises
------
InvalidArgument
    If `out` or `recv_counts` is given alone, or the lengths or dtypes do not fit.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> to_send, counts = numpy.full(3, unisono.rank()), [1, 2]
>>> unisono.all_to_all_v(to_send, counts)[1] == [unisono.rank() + 1] * 2
True
>>> out = numpy.empty(2 * (unisono.rank() + 1), dtype=int)
>>> unisono.all_to_all_v(to_send, counts, out, [unisono.rank() + 1] * 2) is out
True)";

inline constexpr AsyncText all_to_all_v_async{.parameters = R"(out : buffer
    Gets recv_counts[r] elements from each rank r, in group order. It does not overlap `x`.
recv_counts : iterable of int
    The elements that come from each rank.)",
                                              .examples = R"({two ranks}
>>> out = numpy.empty(2 * (unisono.rank() + 1))
>>> unisono.all_to_all_v_async(numpy.ones(3), [1, 2], out, [unisono.rank() + 1] * 2).wait()
>>> out.tolist() == [1.0] * len(out)
True)"};

}  // namespace unisono::python::docs
