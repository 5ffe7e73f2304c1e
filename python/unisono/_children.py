"""Processes that a program starts, each a rank of a job: what they can be given, and how they are watched."""

import contextlib
import io
import multiprocessing.connection
import multiprocessing.process
import os
import pickle
import sys
import time
import types

from ._errors import InvalidArgument, refusal

GRACE = 15  # seconds that the others have after the first failure, and before SIGKILL


class _Found(Exception):
    """The name of a function or class that a new interpreter cannot import."""


class _OfMain(pickle.Pickler):
    """Raises _Found for a function or class of a main module that a new interpreter cannot import, or of which it reads a file that has it not."""

    def __init__(self, has_file):
        super().__init__(io.BytesIO(), protocol=5)
        self._has_file = has_file

    def reducer_override(self, value):
        if isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__":
            code = getattr(value, "__code__", None)
            if not self._has_file or (code is not None and code.co_filename.startswith("<")):
                raise _Found(value.__qualname__)
        return NotImplemented


def _refusal(operation, what, hint="put it into a file, and import it from there"):
    return refusal(operation, what, hint)


def _unreadable_file():
    """The file of the main module, if it cannot be read again: "<stdin>" for a program on the standard input. None otherwise."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or getattr(getattr(main, "__spec__", None), "name", None) or getattr(sys, "frozen", False):
        return None
    return None if os.path.exists(os.path.join(multiprocessing.process.ORIGINAL_DIR or "", file)) else file


def _found_in(values):
    """The name of the first function or class among these that a new interpreter cannot import; None if there is none."""
    main = sys.modules["__main__"]
    has_file = (getattr(main, "__file__", None) is not None and _unreadable_file() is None) or getattr(main, "__spec__", None) is not None
    has_file = has_file or getattr(sys, "frozen", False)
    if has_file and not (sys.flags.interactive or hasattr(sys, "ps1")):
        return None
    for value in values:
        try:
            _OfMain(has_file).dump(value)
        except _Found as found:
            return str(found)
        except Exception:  # multiprocessing may send it in a way of its own, such as a queue, or says what is wrong with it
            pass
    return None


def _defined(name):
    return f"{name} is defined in a notebook, in `python -c`, on the standard input or at a prompt, and the new processes cannot import it"


def check(operation, *values):
    """Raises InvalidArgument where a new interpreter could not import the main module, or what `values` have of it."""
    if file := _unreadable_file():
        raise _refusal(operation, f"the program was read from {file}, and the new processes cannot read it again")
    if name := _found_in(values):
        raise _refusal(operation, _defined(name))


def writer(operation, *values):
    """The module that writes these for new processes: pickle, or cloudpickle where they have functions or classes that a new interpreter cannot import,
    which then travel by value. InvalidArgument where cloudpickle is needed and not installed."""
    name = _found_in(values)
    if name is None:
        return pickle
    try:
        import cloudpickle
    except ImportError:
        raise _refusal(operation, _defined(name), "pip install cloudpickle, which sends it by value; or put it into a file, and import it from there") from None
    return cloudpickle


def answerer():
    """The module that writes what a new process returns: what came by value goes back so."""
    return sys.modules.get("cloudpickle", pickle)


@contextlib.contextmanager
def without_unreadable_main():
    """While it lasts, multiprocessing tells no new process to read a main module that it cannot read."""
    main, file = sys.modules["__main__"], _unreadable_file()
    if file is None:
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = file


def loads(operation, data):
    """Returns what was pickled, in a new process. InvalidArgument if this process cannot import it: a function that only the first process defines."""
    try:
        return pickle.loads(data)
    except (AttributeError, ImportError) as error:
        raise _refusal(operation, f"the new process cannot import what it was given: {error}") from error


def portable(error):
    """The exception, or one in its place that says as much, if it cannot be sent to another process."""
    try:
        pickle.loads(answerer().dumps(error, protocol=5))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class Child:
    """A process that calls target(connection, *args), and answers once by the connection: (whether it went well, …)."""

    def __init__(self, context, rank, target, args, name, **how):
        self.rank = rank
        self.connection, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=target, args=(theirs, *args), name=name, **how)
        self.answer, self.failed_at, self.ended_by_us = None, None, False
        with without_unreadable_main():
            self.process.start()
        theirs.close()

    @property
    def failed(self):
        """A process that ends without an answer has failed. A subclass may see it otherwise."""
        return not self.answer[0] if self.answer is not None else self.process.exitcode is not None

    @property
    def is_consequence(self):
        """Whether it failed because another one had failed before. A subclass reads it from the answer as well."""
        return self.ended_by_us

    def waits_for(self):
        # A process is asked once whether it has ended: between two questions it may.
        return self.connection or (self.process.sentinel if self.process.exitcode is None else None)

    def listen(self):
        if self.connection and self.connection.poll():
            try:
                self.answer = pickle.loads(self.connection.recv_bytes())
            except EOFError:
                pass
            self.connection.close()
            self.connection = None
        self.process.join(0)
        if self.failed and self.failed_at is None:
            self.failed_at = time.monotonic()


def watch(children):
    """Returns when all have ended: those that failed, the first cause first. After a failure the others have GRACE seconds, then SIGTERM, and as long again,
    then SIGKILL."""
    deadline, steps = None, ["terminate", "kill"]
    while waiting := [place for place in (child.waits_for() for child in children) if place is not None]:
        multiprocessing.connection.wait(waiting, None if deadline is None else max(0, deadline - time.monotonic()))
        for child in children:
            child.listen()
        if deadline is None and any(child.failed_at for child in children):
            deadline = time.monotonic() + GRACE
        if deadline is not None and time.monotonic() >= deadline and steps:
            step, deadline = steps.pop(0), time.monotonic() + GRACE
            for child in children:
                if child.process.exitcode is None:
                    child.ended_by_us = True
                    getattr(child.process, step)()
    for child in children:  # also those that have ended since they were looked at
        child.listen()
    return sorted((child for child in children if child.failed), key=lambda child: (child.is_consequence, child.failed_at))


def end(children, grace):
    """Waits so many seconds until all have ended; then those that are left get SIGTERM, and after GRACE SIGKILL."""
    for step, seconds in ((None, grace), ("terminate", GRACE), ("kill", None)):
        deadline = seconds and time.monotonic() + seconds
        for child in children:
            if step and child.process.exitcode is None:
                getattr(child.process, step)()
        for child in children:
            child.process.join(deadline and max(0, deadline - time.monotonic()))


def kill(children):
    """Ends those that are left, where the caller is interrupted."""
    for child in children:
        if child.process.exitcode is None:
            child.process.kill()
            child.process.join()
