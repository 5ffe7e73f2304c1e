#pragma once

#include "../docstrings.h"

// The docstrings of the collectives on objects.

namespace unisono::python::docs {

inline constexpr const char* all_gather_object = R"(Collects an object of each rank in a list on every rank.

Objects travel by pickle, protocol 5, which does not copy the memory of arrays in them into its
stream. Pickles can run code. Between hosts each carries a code under a key of the job's token,
which is checked before anything of it is read. Without a token they are refused there, and
everywhere with UNISONO_PICKLE=off.

Parameters
----------
x : object
    Anything that pickle takes, of any size up to `object_limits()`.
{group}
{timeout}
{tag}

Returns
-------
list of object
    Element r is a copy of the object of rank r, also of this rank's own.

Raises
------
{pickling}
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> unisono.all_gather_object({"rank": unisono.rank()})
[{'rank': 0}, {'rank': 1}])";

inline constexpr const char* gather_object = R"(Collects an object of each rank in a list on rank `dst`.

Parameters
----------
x : object
    Anything that pickle takes, of any size up to `object_limits()`.
dst : int or GlobalRank, default 0
    The rank within the group that gets the list.
{group}
{timeout}
{tag}

Returns
-------
list of object or None
    On `dst` a list whose element r is a copy of the object of rank r; None on every other
    rank.

Raises
------
{pickling}
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> everything = unisono.gather_object(("rank", unisono.rank()))
>>> everything == ([("rank", 0), ("rank", 1)] if unisono.rank() == 0 else None)
True)";

inline constexpr const char* broadcast_object = R"(Copies the object of rank `src` to all ranks.

Parameters
----------
x : object, optional
    On `src` anything that pickle takes. The argument of the other ranks does not count.
src : int or GlobalRank, default 0
    The rank within the group whose object counts.
{group}
{timeout}
{tag}

Returns
-------
object
    `x` itself on `src`, a copy of it on every other rank.

Raises
------
{pickling}
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> config = {"layers": 18} if unisono.rank() == 0 else None
>>> unisono.broadcast_object(config)
{'layers': 18})";

inline constexpr const char* broadcast_object_list = R"(Replaces the elements of a list on every rank by those of rank `src`.

Parameters
----------
list : list of object
    It becomes as long as that of `src`, whose objects are anything that pickle takes.
src : int or GlobalRank, default 0
    The rank within the group whose list counts.
{group}
{timeout}
{tag}

Returns
-------
list of object
    `list`.

Raises
------
{pickling}
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> names = ["train", "test"] if unisono.rank() == 0 else []
>>> unisono.broadcast_object_list(names)
['train', 'test'])";

inline constexpr const char* scatter_object = R"(Shares out the objects of a list of rank `src`: rank r gets element r.

Parameters
----------
list : sequence of object or None
    On `src` size() objects that pickle takes. Elsewhere it is ignored and may be None.
src : int or GlobalRank, default 0
    The rank within the group whose list is shared out.
{group}
{timeout}
{tag}

Returns
-------
object
    A copy of this rank's element.

Raises
------
InvalidArgument
    On all ranks, if the list has not size() elements, or one of them cannot be sent. The
    group stays usable.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> tasks = ["first", "second"] if unisono.rank() == 0 else None
>>> unisono.scatter_object(tasks) == ("first" if unisono.rank() == 0 else "second")
True)";

inline constexpr const char* broadcast_any = R"(Copies an array, a number, a text or a path of rank `src` to all ranks.

The other ranks need not know what it is. Ranks in C++ and in Python may take part together,
where `broadcast_object` is for Python alone.

Parameters
----------
x : array, number, str or path, optional
    The object of rank `src`. The argument of the other ranks does not count.
src : int or GlobalRank, default 0
    The rank within the group whose `x` counts.
{group}
{timeout}
{tag}

Returns
-------
numpy.ndarray, number, str or pathlib.Path
    A copy of what `src` has, with its dtype and shape.

Raises
------
InvalidArgument
    If `src` gives anything else, or nothing.
{mismatch}
{failures}

Examples
--------
{two ranks}
>>> x = numpy.eye(2) if unisono.rank() == 0 else None
>>> unisono.broadcast_any(x)
array([[1., 0.],
       [0., 1.]]))";

inline constexpr const char* set_object_limits = R"(Sets how many bytes one rank's object may have.

Parameters
----------
nbytes : int
    The limit of this process, 1 GiB at first. If ranks differ, the smallest counts.

See Also
--------
object_limits : The limit as it is.

Examples
--------
>>> unisono.set_object_limits(2 << 30)
>>> unisono.object_limits()
2147483648
>>> unisono.set_object_limits(1 << 30))";

inline constexpr const char* object_limits = R"(Tells how many bytes one rank's object may have.

Returns
-------
int
    The limit of this process, in bytes.

See Also
--------
set_object_limits : Changes the limit.

Examples
--------
>>> unisono.object_limits()
1073741824)";

}  // namespace unisono::python::docs
