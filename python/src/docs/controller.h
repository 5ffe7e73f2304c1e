#pragma once

#include "../docstrings.h"

// The docstrings of what a worker of a controller asks for.

namespace unisono::python::docs {

inline constexpr const char* worker_number = R"(Tells the number of this worker, inside a call of a controller.

Returns
-------
int
    From 0; -1 anywhere else.

Examples
--------
Alone:

>>> with unisono.Controller(workers=2) as workers:
...     workers.call(unisono.worker_number).result()
[0, 1]
>>> unisono.worker_number()
-1)";

inline constexpr const char* everyone = R"(Returns the group of the controller, which is rank 0, and all workers.

`world` has the workers alone. A collective on this group is called by the controller and, in
calls, by all workers.

Returns
-------
ProcessGroup
    The same group in the controller and in its calls.

Raises
------
InvalidArgument
    Anywhere else.

Examples
--------
Alone:

>>> with unisono.Controller(workers=2) as workers:
...     unisono.everyone().size()
3)";

}  // namespace unisono::python::docs
