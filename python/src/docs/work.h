#pragma once

#include "../docstrings.h"

// The docstrings of operations and calls that are under way.

namespace unisono::python::docs {

inline constexpr const char* work = R"(An operation that may still be under way: what NAME_async, `isend`, `irecv` and `batch` return.

Its buffers belong to the library until it is done, and are kept alive as long. A Work that is
dropped still completes. If the operation fails and nobody has asked for the error, the group's
next call raises it.

Methods
-------
wait()
    Returns when the operation is done, and raises its error.
wait_for(timeout)
    Waits for some seconds at most, and tells whether it is done.
is_completed()
    Tells whether it is done, well or not.
cancel()
    Takes back a receive that nobody wants any more.
on_completion(callback)
    Calls a function when it is done.
exception()
    Returns its error.
result()
    Waits, and returns what the blocking call would have returned.
source_rank()
    Returns the sender of a receive that is done.
tag()
    Returns the tag of the message that a receive has taken.

Examples
--------
{two ranks}
>>> x = numpy.ones(2)
>>> work = unisono.all_reduce_async(x)
>>> work.wait()
>>> work.is_completed(), work.exception()
(True, None)
>>> x
array([2., 2.]))";

inline constexpr const char* wait = R"(Returns when the operation is done.

Ctrl-C ends the wait with KeyboardInterrupt, not the operation. An operation on the memory of a
device counts as done when the device has it: what the current stream does from then on comes
after it.

Raises
------
Error
    The error of the operation.)";

inline constexpr const char* wait_for = R"(Waits for some seconds at most, and tells whether the operation is done.

Parameters
----------
timeout : float or timedelta
    The seconds to wait. After False the operation goes on.

Returns
-------
bool
    Whether it is done, on the device as well.

Raises
------
Error
    The error of the operation.)";

inline constexpr const char* cancel = R"(Takes back a receive that nobody wants any more.

Returns
-------
bool
    True if it was taken back. `wait` then returns, `source_rank` is -1, and the buffer is as
    it was. False if it was matched with a message already, if it is done, and for every operation
    except a receive. Nothing has happened then.)";

inline constexpr const char* on_completion = R"(Calls a function once, when the operation is done.

It is called at once in this thread if the operation is done already, otherwise in the thread that
completes it, which may be inside a call on the same group.

Parameters
----------
callback : callable
    A function without arguments. It must not call on that group, and should be short. Its
    exceptions go to sys.unraisablehook.

Raises
------
InvalidArgument
    If `callback` is not a function.)";

inline constexpr const char* work_exception = R"(Returns the error of the operation.

Returns
-------
Error or None
    None while it is under way, and if it went well.)";

inline constexpr const char* work_result = R"(Waits, and returns what the blocking call would have returned.

Returns
-------
object
    The buffer that holds the result; None on a rank that gets none.

Raises
------
Error
    The error of the operation.)";

inline constexpr const char* wait_all = R"(Waits for all of some operations.

Parameters
----------
works : iterable of Work
    The operations, of any groups.

Raises
------
InvalidArgument
    If one of these is not a Work.
Error
    The first error among them, in their order, once all are done.

Examples
--------
{two ranks}
>>> x, y = numpy.ones(2), numpy.zeros(3)
>>> unisono.wait_all([unisono.all_reduce_async(x), unisono.broadcast_async(y)]))";

inline constexpr const char* wait_any = R"(Waits until one of some operations is done, and returns its index.

Parameters
----------
works : iterable of Work or of Future
    The operations of any groups, or the calls of a controller.
timeout : float or timedelta, optional
    The seconds to wait, for Futures alone. None stands for as long as it takes.

Returns
-------
int or None
    The index of one that is done, also of one that was done before. None if no Future is done
    after the timeout.

Raises
------
InvalidArgument
    If there is nothing to wait for, or a timeout is given for Works.
Error
    The error of that Work. The error of a Future is raised by its `result` alone.

Examples
--------
{two ranks}
>>> works = [unisono.all_reduce_async(numpy.ones(2)), unisono.barrier_async()]
>>> unisono.wait_any(works) in (0, 1)
True
>>> unisono.wait_all(works))";

inline constexpr const char* future = R"(A call that a controller has made on a worker, with the names of concurrent.futures.

`await future` works as well. A call whose Future is dropped still runs; nobody learns of its error
then.

Attributes
----------
worker : int
    The number of the worker, from 0.

Methods
-------
result(timeout=None)
    Waits, and returns what the function has returned, or raises what it has raised.
exception(timeout=None)
    Waits, and returns what `result` would raise.
done()
    Tells whether the call is done, well or not.
cancel()
    Asks the worker to leave the call out.
cancelled()
    Tells whether it was left out.
add_done_callback(callback)
    Calls a function when the call is done.

Examples
--------
Alone:

>>> import math
>>> with unisono.Controller(workers=2) as workers:
...     future = workers[1].call(math.factorial, 5)
...     print(future.result(), future.worker)
120 1)";

inline constexpr const char* future_result = R"(Waits, and returns what the function has returned, or raises what it has raised.

That is the exception itself, with a note that names the worker, the function, the types of its
arguments, the line of the call, and the worker's traceback. Ctrl-C ends the wait, not the call.

Parameters
----------
timeout : float or timedelta, optional
    The seconds to wait. None stands for as long as it takes.

Returns
-------
object
    The result, a copy.

Raises
------
Timeout
    If the call is not done in time. It goes on.
PeerFailed
    If the worker is dead.
RemoteError
    If the function has raised an exception that cannot travel.
Cancelled
    If the call was left out after `cancel`.)";

inline constexpr const char* future_exception = R"(Waits, and returns what `result` would raise.

Parameters
----------
timeout : float or timedelta, optional
    The seconds to wait. None stands for as long as it takes.

Returns
-------
BaseException or None
    None if the call went well.

Raises
------
Timeout
    If the call is not done in time. It goes on.)";

inline constexpr const char* future_cancel = R"(Asks the worker to leave the call out if it has not begun.

Returns
-------
bool
    False if it is done already. After True `result` raises Cancelled or, where the call had
    begun, returns as if nothing had been asked.)";

inline constexpr const char* add_done_callback = R"(Calls a function once, when the call is done.

It is called at once in this thread if the call is done already, otherwise in the thread that learns
of it.

Parameters
----------
callback : callable
    A function of the Future. Its exceptions go to sys.unraisablehook.

Raises
------
InvalidArgument
    If `callback` is not a function.)";

}  // namespace unisono::python::docs
