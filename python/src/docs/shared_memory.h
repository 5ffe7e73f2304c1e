#pragma once

#include "../docstrings.h"

// The docstrings of memory that all ranks of a host reach.

namespace unisono::python::docs {

inline constexpr const char* shared_bytes = R"(Bytes, all 0 at first, in memory that every rank of the host can reach.

Anything that takes a buffer takes it. Collectives on it copy nothing twice. `shared_array` makes
an array of it. If the system grants no such memory, or the pool is full, it is ordinary memory.

Parameters
----------
nbytes : int
    The number of bytes.

Examples
--------
>>> memory = unisono.SharedBytes(64)
>>> len(memory), bytes(memory) == bytes(64)
(64, True))";

inline constexpr const char* is_shared = R"(Tells whether all of a buffer lies in memory that every rank of the host can reach.

Parameters
----------
x : buffer
    Any buffer.

Returns
-------
bool
    False for a buffer with gaps between its elements.

Raises
------
InvalidArgument
    If `x` is not a buffer.

Examples
--------
>>> unisono.is_shared(unisono.shared_array(1000)), unisono.is_shared(numpy.zeros(1000))
(True, False))";

}  // namespace unisono::python::docs
