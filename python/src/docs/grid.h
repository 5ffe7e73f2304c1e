#pragma once

#include "../docstrings.h"

// The docstrings of a grid, and of values with their places.

namespace unisono::python::docs {

inline constexpr const char* grid = R"(A grid whose cells are the ranks of a group, row by row.

Rank 1 is the neighbour of rank 0 on the last axis. Only `along` sends anything.

Parameters
----------
extents : iterable of int
    The number of cells of each axis. A 0 is chosen, so that the chosen extents are as near to
    each other as can be, the larger ones first. Their product is the size of the group.
periodic : iterable of bool, optional
    For each axis whether its first cell follows its last. None stands for no axis.
group : ProcessGroup, optional
    The group whose ranks are the cells. None stands for the world.

Methods
-------
group()
    Returns the group whose ranks are the cells.
extents()
    Returns the number of cells of each axis.
is_periodic(axis)
    Tells whether the first cell of the axis follows its last.
coordinates()
    Returns the cell of this rank: a number for each axis.
coordinates_of(rank)
    Returns the cell of a rank of the group.
rank_at(coordinates)
    Returns the rank of a cell; None beyond the border of an axis that is not periodic.
neighbour(axis, distance=1)
    Returns the rank so many cells further on the axis; None beyond the border.
along(axes)
    Returns the part of the grid that this rank reaches along these axes.
choose_extents(ranks, extents)
    Returns the extents of a grid of so many ranks.

Raises
------
InvalidArgument
    For extents that do not fit the group. The methods raise it for an axis or a rank that the
    grid does not have.

Examples
--------
{two ranks}
>>> grid = unisono.Grid((0, 1), periodic=(True, False))
>>> grid.extents(), grid.coordinates() == [unisono.rank(), 0]
([2, 1], True)
>>> grid.neighbour(0) == 1 - unisono.rank(), grid.neighbour(1)
(True, None)
>>> column = grid.along((0,))
>>> unisono.all_reduce(1, group=column.group())
2)";

inline constexpr const char* choose_extents = R"(Returns the extents of a grid of so many ranks.

Parameters
----------
ranks : int
    The number of cells.
extents : iterable of int
    The extent of each axis; a 0 is chosen.

Returns
-------
list of int
    `choose_extents(12, (0, 3, 0))` is [2, 3, 2].

Raises
------
InvalidArgument
    If no such grid has as many cells.)";

inline constexpr const char* rank_at = R"(Returns the rank of a cell.

Parameters
----------
coordinates : iterable of int
    A number for each axis. They wrap on a periodic axis.

Returns
-------
int or None
    None beyond the border of an axis that is not periodic.)";

inline constexpr const char* neighbour = R"(Returns the rank that is some cells further on an axis.

Parameters
----------
axis : int
    The number of the axis, from 0.
distance : int, default 1
    The number of cells; a negative one goes back.

Returns
-------
int or None
    None beyond the border.

Raises
------
InvalidArgument
    If the grid has no such axis.)";

inline constexpr const char* along = R"(Returns the part of the grid that this rank reaches along some axes.

All ranks of the group call it with the same axes: it forms a group.

Parameters
----------
axes : iterable of int
    The numbers of the axes, from 0.

Returns
-------
Grid
    A grid of a group of its own.

Raises
------
InvalidArgument
    If the grid has no such axis.
{failures})";

inline constexpr const char* with_place = R"(A value and its place: a rank, or an index that the program chooses.

`all_reduce`, `reduce` and `scan` take it with "min" and "max", as MPI does with MINLOC and
MAXLOC; `all_reduce_async` takes arrays. A single pair is returned, an array is worked on in
place. Of equal values the one with the lowest place is chosen. A NaN is chosen before numbers,
and -0 is less than +0.

Parameters
----------
value : number or array
    Of any dtype but the complex ones. An array is copied into memory of the pair.
place : int or array of int
    For an array of values an array of ints of the same shape, or one int for all.

Attributes
----------
value : number or numpy.ndarray
    The value; of an array a view of the memory of the pair.
place : int or numpy.ndarray
    The place, likewise.

Raises
------
InvalidArgument
    For complex values, a masked array, arrays of different shapes, and a place that is not an int
    of 64 bits.
Unsupported
    For arrays without NumPy.

Examples
--------
{two ranks}
>>> loss = [0.75, 0.25][unisono.rank()]
>>> value, place = unisono.all_reduce(unisono.WithPlace(loss, unisono.rank()), "min")
>>> value, place
(0.25, 1)
>>> x = unisono.WithPlace(numpy.array([1.0, 2.0]) * unisono.rank(), unisono.rank())
>>> unisono.all_reduce(x, "max").place
array([1, 1]))";

}  // namespace unisono::python::docs
