"""Calls that are under way on several workers, and those that asyncio waits for."""

import collections.abc
import time

from . import _core
from ._errors import refusal, Timeout


class Futures(collections.abc.Sequence):
    """The futures of a call on several workers, in the order of the workers.

    It is a sequence; `await futures` works as well.

    Parameters
    ----------
    futures : iterable of Future
        The futures.

    Methods
    -------
    result(timeout=None)
        Waits, and returns the results of all.
    done()
        Tells whether all are done.
    cancel()
        Asks all workers to leave the call out.

    Examples
    --------
    Alone:

    >>> import math
    >>> with unisono.Controller(workers=2) as workers:
    ...     futures = workers.call(math.factorial, 5)
    ...     print(futures[1].result(), futures.result())
    120 [120, 120]
    """

    def __init__(self, futures):
        self._futures = tuple(futures)

    def __getitem__(self, i):
        return Futures(self._futures[i]) if isinstance(i, slice) else self._futures[i]

    def __len__(self):
        return len(self._futures)

    def __repr__(self):
        return f"<unisono.Futures {list(self._futures)}>"

    def result(self, timeout=None):
        """Waits, and returns the results of all.

        Parameters
        ----------
        timeout : float or timedelta, optional
            The seconds to wait. None stands for as long as it takes.

        Returns
        -------
        list of object
            The results, in the order of the workers.

        Raises
        ------
        Timeout
            If a call is not done in time. The calls go on.
        Exception
            The error of the first call that has failed, as soon as it has: see `Future.result`.
        """
        deadline = None if timeout is None else time.monotonic() + getattr(timeout, "total_seconds", lambda: timeout)()
        left = list(self._futures)
        while left:
            first = _core.wait_any(left, None if deadline is None else max(0.0, deadline - time.monotonic()))
            if first is None:
                raise refusal("result", f"{len(left)} of {len(self)} calls are not done after {timeout} s, the first one on worker {left[0].worker}; "
                              "they go on", kind=Timeout)
            left.pop(first).result()
        return [future.result() for future in self._futures]

    def done(self):
        """Tells whether all are done."""
        return all([future.done() for future in self._futures])

    def cancel(self):
        """Asks all workers to leave the call out: see Future.cancel.

        Returns
        -------
        bool
            Whether one of them was asked.
        """
        return any([future.cancel() for future in self._futures])

    def __await__(self):
        import asyncio

        return asyncio.gather(*self._futures).__await__()


def wait_for(future):
    """The object that a coroutine awaits in place of a future."""
    if not future.done():
        import asyncio

        loop = asyncio.get_running_loop()
        waiter = loop.create_future()

        def wake():
            if not waiter.done():
                waiter.set_result(None)

        def tell(_):
            try:
                loop.call_soon_threadsafe(wake)
            except RuntimeError:  # the loop was closed meanwhile, and nobody waits
                pass

        future.add_done_callback(tell)
        yield from waiter
    return future.result()
