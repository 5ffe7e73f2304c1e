"""One program that drives the ranks: a controller, its workers, and the objects that it makes there."""

import atexit
import collections.abc
import functools
import multiprocessing.process
import operator
import sys

from . import _core, _ending, _serving
from ._context import initialize
from ._errors import exact_mean, refusal
from ._futures import Futures
from ._launch import is_launched
from ._workers import Started


class _Calls:
    """The calls on the workers first … last - 1 of a controller."""

    def __init__(self, job, first, last):
        self._job, self._first, self._last = job, first, last

    def _target(self, target, is_class):
        if not callable(target) or (is_class and not isinstance(target, type)):
            raise refusal("make" if is_class else "call", f"{target!r} is no {'class' if is_class else 'function'}")
        return target if self._job.workers.may_pickle else _serving.by_name(target, is_class)

    def _call(self, function, args, kwargs):
        return self._job.call(self._first, self._last, function, self._target(function, False), args, kwargs)

    def _make(self, type_, args, kwargs):
        name = _serving.name_of(type_)
        with _serving.sending:
            number, made = self._job.workers.make(self._first, self._last, name, self._target(type_, True), args, kwargs)
        return _Object(self._job, self._first, number, type_, made)


class Worker(_Calls):
    """One worker of a controller: `workers[2]`.

    Attributes
    ----------
    number : int
        Its number, from 0: its rank within the world of the workers.
    failure : Error or None
        Why no call of this worker can go well any more. None: it lives, as far as that is known.

    Methods
    -------
    call(function, /, *args, **kwargs)
        Calls a function on this worker, and returns a Future.
    make(type_, /, *args, **kwargs)
        Makes an object on this worker, and returns a Handle.
    tensor(tensor)
        Copies a tensor of PyTorch to this worker.

    Examples
    --------
    Alone:

    >>> import math
    >>> with unisono.Controller(workers=2) as workers:
    ...     worker = workers[1]
    ...     print(worker.number, worker.failure, worker.call(math.factorial, 4).result())
    1 None 24
    """

    @property
    def number(self):
        """Its number, from 0: its rank within the world of the workers."""
        return self._first

    def call(self, function, /, *args, **kwargs):
        """Calls a function on this worker: see Controller.call.

        Parameters
        ----------
        function : callable
            A function that the worker finds by its name.
        *args, **kwargs : object
            Its arguments.

        Returns
        -------
        Future
            Its result or exception.

        Raises
        ------
        InvalidArgument
            For what cannot be sent.
        """
        return self._call(function, args, kwargs)[0]

    def make(self, type_, /, *args, **kwargs):
        """Makes an object on this worker: see Controller.make.

        Parameters
        ----------
        type_ : type
            A class that the worker finds by its name.
        *args, **kwargs : object
            The arguments of its constructor.

        Returns
        -------
        Handle
            A handle to it.

        Raises
        ------
        InvalidArgument
            For what cannot be sent.
        """
        return Handle(self._make(type_, args, kwargs), self._first)

    def tensor(self, tensor):
        """Copies a tensor of PyTorch to this worker: see unisono.torch.remote."""
        from .torch import _remote

        return _remote.placed(tensor, self._first)

    @property
    def failure(self):
        """Why no call of this worker can go well any more: an exception. None: it lives, as far as that is known."""
        return self._job.workers.failure(self._first)

    def __repr__(self):
        return f"<unisono.Worker {self._first}>"


class Controller(_Calls, collections.abc.Sequence):
    """The workers that this program drives: a sequence of them, and calls on all of them.

    In a job (`unisono run -n 5`, torchrun, mpirun, srun) all processes make a Controller. Rank 0 goes
    on; the others become its workers, serve its calls there, and end with it. Alone, `workers=4`
    starts as many on this host, as `spawn` does: a program keeps what starts them behind
    `if __name__ == "__main__":`. Worker i is rank i + 1 of the job. Inside a call world(), rank() and
    all collectives are those of the workers.

    It ends with its scope, with `close`, or with the program. In order, the workers finish all calls
    first; after an exception they end at once.

    Parameters
    ----------
    workers : int, default 0
        The number of workers. In a job it may be left out, or is one less
        than the ranks.
    backend : str, default "auto"
        The backend of the collectives among the workers, as in `initialize`.
    timeout : float or timedelta, optional
        The seconds of every call among them, as in `initialize`.
    most_in_flight : int, default 1024
        The most calls of a worker that are under way. A further one waits.

    Methods
    -------
    call(function, /, *args, **kwargs)
        Calls a function on every worker, and returns Futures.
    make(type_, /, *args, **kwargs)
        Makes an object on every worker, and returns Handles.
    tensor(tensor)
        Copies a tensor of PyTorch to every worker.
    sum(futures)
        Waits, and returns the sum of the results.
    mean(futures)
        Waits, and returns the mean of the results.
    everyone()
        Returns the group of the controller and all workers.
    replace(i)
        Puts another process in the place of a dead worker.
    close()
        Waits for all calls, and ends the workers.

    Raises
    ------
    InvalidArgument
        For a number of workers that there are not, and in a process that imports the program.
    LaunchFailed
        If a process that it starts ends before it serves.

    Examples
    --------
    Alone:

    >>> import collections, math
    >>> with unisono.Controller(workers=2) as workers:
    ...     print(workers.call(math.factorial, 5).result())
    ...     counters = workers.make(collections.Counter, "abca")
    ...     futures = [counters.update.call("a") for i in range(3)]  # none waits for the one before
    ...     print(workers.sum(counters.total.call()))
    [120, 120]
    14
    """

    def __init__(self, workers=0, *, backend="auto", timeout=None, most_in_flight=1024):
        self._job = _Job(operator.index(workers), backend, timeout, most_in_flight)
        super().__init__(self._job, 0, len(self._job.workers))

    def __enter__(self):
        return self

    def __exit__(self, type, error, traceback):
        self._job.end(_ending.describe(error) or "" if error is not None else "")

    def close(self):
        """Waits for all calls, and ends the workers. Calls afterwards are NotInitialized."""
        self._job.end("")

    def __len__(self):
        return self._last

    def __getitem__(self, i):
        number = range(self._last)[i]
        if isinstance(number, range):
            return [Worker(self._job, each, each + 1) for each in number]
        return Worker(self._job, number, number + 1)

    def __repr__(self):
        return f"<unisono.Controller of {self._last} workers>"

    def call(self, function, /, *args, **kwargs):
        """Calls a function on every worker, and returns before any of them has answered.

        A worker runs its calls one after the other, in the order in which they were made. Functions
        travel by their names, arguments and results by pickle with protocol 5. Arrays and, as
        arguments and results by themselves, bytes of 64 KiB and more are sent from where they lie:
        do not write to an array before the call is done.

        Parameters
        ----------
        function : callable
            A function that the workers find by its name. With UNISONO_PICKLE=off see `remote`.
        *args, **kwargs : object
            Its arguments.

        Returns
        -------
        Futures
            The result or exception of each worker, in their order. Later calls go on after an
            error.

        Raises
        ------
        InvalidArgument
            For what cannot be sent.
        """
        return Futures(self._call(function, args, kwargs))

    def make(self, type_, /, *args, **kwargs):
        """Makes an object on every worker, and returns before they are made.

        Parameters
        ----------
        type_ : type
            A class that the workers find by its name.
        *args, **kwargs : object
            The arguments of its constructor.

        Returns
        -------
        Handles
            A handle to them, whose methods are called by `handle.method.call(…)`. If an object
            cannot be made, `handle.made` and the calls of its methods raise why. The objects last
            as long as the handle.

        Raises
        ------
        InvalidArgument
            For what cannot be sent.
        """
        return Handles(self._make(type_, args, kwargs))

    def tensor(self, tensor):
        """Copies a tensor of PyTorch to each worker: see unisono.torch.remote.

        Parameters
        ----------
        tensor : torch.Tensor
            The tensor.

        Returns
        -------
        object
            The copies, which have the collectives as methods.
        """
        from .torch import _remote

        return _remote.placed_on_all(tensor, self._last)

    def sum(self, futures):
        """Waits, and returns the sum of the results.

        Parameters
        ----------
        futures : iterable of Future
            Their results are numbers, arrays, or whatever has a +.

        Returns
        -------
        number, array or object
            The sum.

        Raises
        ------
        InvalidArgument
            If there is no future.
        Exception
            The error of the first call that has failed.
        """
        return functools.reduce(operator.add, self._results(futures, "sum"))

    def mean(self, futures):
        """Waits, and returns the mean of the results.

        Parameters
        ----------
        futures : iterable of Future
            Their results are numbers or arrays.

        Returns
        -------
        float or array
            The mean; of numbers the exact one, rounded once.

        Raises
        ------
        InvalidArgument
            If there is no future.
        Exception
            The error of the first call that has failed.
        """
        results = self._results(futures, "mean")
        if all(getattr(x, "shape", ()) == () for x in results):
            return exact_mean(results)
        return functools.reduce(operator.add, results) / len(results)

    @staticmethod
    def _results(futures, operation):
        results = Futures(futures).result()
        if not results:
            raise refusal(operation, "there is no future among these")
        return results

    everyone = staticmethod(_core.everyone)

    def replace(self, i):
        """Waits for all calls, and puts another process in the place of a dead worker.

        Its objects are gone; handles to them say so. Nothing is done if the worker lives.

        Parameters
        ----------
        i : int
            The number of the worker.

        Raises
        ------
        Unsupported
            If the job is not elastic: the launcher of `unisono run -n 3:5 --max-restarts 2` starts
            that process.
        """
        self._job.replace(range(self._last)[i])


class _Job:
    """The workers, and the processes of those that were started here."""

    def __init__(self, count, backend, timeout, most_in_flight):
        if count < 0:
            raise refusal("Controller", f"there are no {count} workers")
        if getattr(multiprocessing.process.current_process(), "_inheriting", False):
            raise refusal("Controller", "a new process that imports the program would start workers of its own",
                          'the program makes its controller behind `if __name__ == "__main__":`')
        self.started, self._has_joined = None, False
        if not _core.is_initialized():
            if count and not is_launched():
                self.started = Started(count, backend, timeout, most_in_flight)
            else:
                initialize(backend, timeout=timeout)
                self._has_joined = True
        is_worker = _core.rank() > 0
        try:
            workers = _core._meet_workers(count, backend, timeout, most_in_flight)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                _core._leave_because(_ending.describe(error))
            self._leave(1)
            if is_worker and isinstance(error, KeyboardInterrupt):
                sys.exit(130)  # the controller says what has happened
            raise
        if is_worker:
            sys.exit(workers)
        self.workers = workers
        self.generations = [0] * len(workers)
        self.has_ended = False
        atexit.register(self._end_with_program)
        _serving.begin(self)

    def call(self, first, last, function, target, args, kwargs):
        with _serving.sending:
            return self.workers.call(first, last, _serving.name_of(function), target, args, kwargs)

    def end(self, reason):
        if self.has_ended:
            return
        self.has_ended = True
        atexit.unregister(self._end_with_program)
        try:
            self.workers.end(reason)
        except BaseException as error:  # Ctrl-C while the last calls are waited for: the workers end with it at once
            self.workers.end(reason := reason or _ending.describe(error) or "the controller was interrupted")
            raise
        finally:
            self._leave(1 if reason else 15)

    def _end_with_program(self):
        self.end(_ending._failure() or "")

    def _leave(self, grace):
        if self.started is not None:
            self.started.end(grace)
        elif self._has_joined:
            _core.finalize()

    def replace(self, worker):
        try:
            self.workers.replace(worker)
        finally:
            self.generations[:] = map(self.workers.generation, range(len(self.workers)))


class _Object:
    """An object on each of some workers; lasts as long as handles to it."""

    def __init__(self, job, first, number, type_, made):
        self.job, self.first, self.number, self.type = job, first, number, type_
        self.made = made
        self.generations = list(job.generations)

    def call(self, first, last, name, args, kwargs):
        for worker in range(first, last):
            if self.generations[worker] != self.job.generations[worker]:
                raise refusal("call", f"this {self.type.__qualname__} is gone: worker {worker} was replaced after it was made", "make another one")
        with _serving.sending:
            return self.job.workers.call_method(first, last, self.number, f"{self.type.__qualname__}.{name}", name, args, kwargs)

    def __del__(self):
        for future in self.made:
            self.job.workers.release(future.worker, self.number)


class _Methods:
    """The methods of the objects on the workers first … last - 1."""

    def __init__(self, object, first, last):
        self._object, self._first, self._last = object, first, last

    def __getattr__(self, name):
        type_ = self._object.type
        if name.startswith("_") or not callable(getattr(type_, name, None)):
            raise AttributeError(f"{type_.__qualname__} has no method {name}", name=name, obj=self)
        return self._method(self._object, self._first, self._last, name)

    def __dir__(self):
        return [*super().__dir__(), *(name for name in dir(self._object.type) if not name.startswith("_"))]

    def __reduce__(self):
        raise refusal("call", f"a handle to a {self._object.type.__qualname__} on workers is of use to its controller alone")


class _Method:
    def __init__(self, object, first, last, name):
        self._object, self._first, self._last, self._name = object, first, last, name

    def _call(self, args, kwargs):
        return self._object.call(self._first, self._last, self._name, args, kwargs)

    def __call__(self, *args, **kwargs):
        name = self._name
        raise refusal("call", f"{self._object.type.__qualname__}.{name} runs on workers, and returns before it is done", f"write {name}.call(…)")


class _MethodOfOne(_Method):
    def call(self, *args, **kwargs):
        """A future of this method on the worker."""
        return self._call(args, kwargs)[0]


class _MethodOfAll(_Method):
    def call(self, *args, **kwargs):
        """Futures of this method on every worker, in their order."""
        return Futures(self._call(args, kwargs))


class Handle(_Methods):
    """A handle to an object on one worker, whose methods are its attributes.

    `handle.step.call(1)` returns a Future.

    Attributes
    ----------
    worker : int
        The number of the worker.
    made : Future
        The future of its making, whose result is None.

    Examples
    --------
    Alone:

    >>> import collections
    >>> with unisono.Controller(workers=2) as workers:
    ...     counter = workers[0].make(collections.Counter, "abca")
    ...     print(counter.made.result(), counter.most_common.call(1).result())
    None [('a', 2)]
    """

    _method = _MethodOfOne

    def __init__(self, object, worker):
        super().__init__(object, worker, worker + 1)

    @property
    def worker(self):
        return self._first

    @property
    def made(self):
        return self._object.made[self._first - self._object.first]

    def __repr__(self):
        return f"<unisono.Handle to {self._object.type.__qualname__} on worker {self._first}>"


class Handles(_Methods):
    """A handle to an object on each worker, whose methods are its attributes.

    `handles.step.call(1)` returns Futures, and `handles[2]` is a Handle to the object of worker 2.

    Attributes
    ----------
    made : Futures
        The futures of their making, whose results are None.

    Examples
    --------
    Alone:

    >>> import collections
    >>> with unisono.Controller(workers=2) as workers:
    ...     counters = workers.make(collections.Counter, "abca")
    ...     print(len(counters), counters.most_common.call(1).result())
    2 [[('a', 2)], [('a', 2)]]
    """

    _method = _MethodOfAll

    def __init__(self, object):
        super().__init__(object, object.first, object.first + len(object.made))

    @property
    def made(self):
        return Futures(self._object.made)

    def __len__(self):
        return self._last - self._first

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i):
        return Handle(self._object, range(self._first, self._last)[operator.index(i)])

    def __repr__(self):
        return f"<unisono.Handles to {self._object.type.__qualname__} on {len(self)} workers>"
