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
    """What is called on the workers first … last - 1 of a controller."""

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
    """One worker of a controller: workers[2]."""

    @property
    def number(self):
        """Its number, from 0: its rank within the world of the workers."""
        return self._first

    def call(self, function, /, *args, **kwargs):
        """A future of function(*args, **kwargs) on this worker: see Controller.call."""
        return self._call(function, args, kwargs)[0]

    def make(self, type_, /, *args, **kwargs):
        """An object on this worker, and a handle to it: see Controller.make."""
        return Handle(self._make(type_, args, kwargs), self._first)

    def tensor(self, tensor):
        """A copy of a tensor of PyTorch on this worker: see unisono.torch.remote."""
        from .torch import _remote

        return _remote.placed(tensor, self._first)

    @property
    def failure(self):
        """Why no call of this worker can go well any more: an exception. None: it lives, as far as that is known."""
        return self._job.workers.failure(self._first)

    def __repr__(self):
        return f"<unisono.Worker {self._first}>"


class Controller(_Calls, collections.abc.Sequence):
    """The workers that this program drives: a list of them, and calls on all of them.

    In a job (`unisono run -n 5`, torchrun, mpirun, srun) all processes make a Controller: rank 0 goes on, the others become its workers, serve its calls
    there, and end with it. Alone, `workers=4` starts as many on this host, as spawn does: a program keeps what starts them behind
    `if __name__ == "__main__":`. In a job of 5 it may be said as well. Worker i is rank i + 1 of the job; inside a call world(), rank() and all
    collectives are those of the workers.

    backend, timeout: of the collectives among the workers, as in initialize. most_in_flight: so many calls of a worker are under way at most; a further one
    waits. It ends with its scope, with `close`, or with the program: in order the workers finish all calls first, after an exception they end at once.

        @unisono.actor
        class Trainer:
            def __init__(self, scale): self.scale = scale
            def step(self, i): return unisono.all_reduce(self.scale * i)

        if __name__ == "__main__":
            with unisono.Controller(workers=3) as workers:
                print(workers.call(math.factorial, 5).result())     # [120, 120, 120]
                trainer = workers.make(Trainer, 2.0)
                steps = [trainer.step.call(i) for i in range(100)]  # none waits for the one before
                print(workers.mean(steps[-1]))                      # 594.0
    """

    def __init__(self, workers=0, *, backend="auto", timeout=None, most_in_flight=1024):
        self._job = _Job(operator.index(workers), backend, timeout, most_in_flight)
        super().__init__(self._job, 0, len(self._job.workers))

    def __enter__(self):
        return self

    def __exit__(self, type, error, traceback):
        self._job.end(_ending.describe(error) or "" if error is not None else "")

    def close(self):
        """Waits for all calls, and ends the workers. Idempotent. Calls afterwards are NotInitialized."""
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
        """Futures of function(*args, **kwargs) on every worker, in their order. Returns before anybody has answered.

        A worker carries out its calls one after the other, in the order in which they were made. Functions travel by their names, arguments and results
        by pickle with protocol 5: arrays and, as arguments and results by themselves, bytes of 64 KiB and more are sent from where they lie, so do not
        write to an array before the call is done. With UNISONO_PICKLE=off see unisono.remote.

        What the function raises is raised by its future, see Future.result; later calls go on. Raises InvalidArgument for what cannot be sent.
        """
        return Futures(self._call(function, args, kwargs))

    def make(self, type_, /, *args, **kwargs):
        """An object type_(*args, **kwargs) on every worker, and a handle to them, whose methods are called by `handle.method.call(…)`.

        Returns before they are made. If one cannot be made, `handle.made` and the calls of its methods raise why. The objects last as long as the handle.
        """
        return Handles(self._make(type_, args, kwargs))

    def tensor(self, tensor):
        """Copies of a tensor of PyTorch, one on each worker, which have the collectives as methods: see unisono.torch.remote."""
        from .torch import _remote

        return _remote.placed_on_all(tensor, self._last)

    def sum(self, futures):
        """The sum of the results, once they are there: of numbers, arrays, or whatever has a +."""
        return functools.reduce(operator.add, self._results(futures, "sum"))

    def mean(self, futures):
        """The mean of the results, once they are there: of numbers, or of arrays."""
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
        """Waits for all calls, and puts another process in the place of worker i, which is dead. Its objects are gone; handles to them say so.

        In an elastic job alone (`unisono run -n 3:5 --max-restarts 2`), whose launcher starts that process; Unsupported elsewhere. Nothing is done if the
        worker lives.
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
        raise refusal("call", f"{self._object.type.__qualname__}.{name} is carried out by workers, and returns before it is done", f"write {name}.call(…)")


class _MethodOfOne(_Method):
    def call(self, *args, **kwargs):
        """A future of this method on the worker."""
        return self._call(args, kwargs)[0]


class _MethodOfAll(_Method):
    def call(self, *args, **kwargs):
        """Futures of this method on every worker, in their order."""
        return Futures(self._call(args, kwargs))


class Handle(_Methods):
    """A handle to an object on one worker, whose methods are its attributes: handle.step.call(1) returns a future.

    worker: the number of the worker. made: the future of its making, whose result is None.
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
    """A handle to an object on each worker, whose methods are its attributes: trainer.step.call(1) returns futures, trainer[2] is the object of worker 2.
    made: the futures of their making, whose results are None.
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
