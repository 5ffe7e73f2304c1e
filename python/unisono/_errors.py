"""The exceptions of the library: one class for each of C++, with the same names and attributes."""

import concurrent.futures
import enum
import os
import typing


class Place(typing.NamedTuple):
    """A line of a program."""

    file: str
    line: int

    def __str__(self):
        return f"{os.path.basename(self.file)}:{self.line}"


class Error(Exception):
    """Base of everything that unisono raises. str() is the whole sentence; the attributes are its parts, None where there is none."""

    message: str = ""  #: the sentence without operation, group and hint
    operation: str | None = None  #: the call, as the user spells it: "all_reduce"
    group: str | None = None  #: the name of the group, "world" for the default one
    sequence: int | None = None  #: the number of the operation within its group, counted from 1
    rank: int | None = None  #: the caller's rank in the group
    culprit: int | None = None  #: the rank (in the group) that caused the error, where one did
    world_culprit: int | None = None  #: the culprit's rank in the world, where its place there is known
    host: str | None = None  #: the culprit's host
    hint: str | None = None  #: what to do about it
    where: Place | None = None  #: the call in the caller's source

    def __reduce__(self):
        # Every attribute travels to another process, as spawn's results do.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(type, args, attributes):
    error = type(*args)
    error.__dict__.update(attributes)
    return error


class InvalidArgument(Error, ValueError):
    """A call that is wrong by itself: raised before anything is sent, the group stays usable."""


class NotInitialized(Error, RuntimeError):
    """The process was launched as one of several and has not called initialize, or was forked from one that had."""


class AlreadyInitialized(Error, RuntimeError):
    """initialize was called twice, or processes are to be started within a job."""


class NotMember(Error, RuntimeError):
    """The calling process does not belong to the group."""


class Unsupported(Error, NotImplementedError):
    """This backend cannot do this operation (for this dtype, on this device); another may."""


class BackendUnavailable(Error, RuntimeError):
    """The backend asked for cannot run here; the message says what is missing."""


class Mismatch(Error, RuntimeError):
    """The ranks called different things. Raised on every rank; nothing was moved, the group stays usable."""


class Timeout(Error, TimeoutError):
    """A deadline passed. Poisons the group: later calls raise the same at once."""

    missing: list = []  #: the ranks that did not arrive, ascending


class PeerFailed(Error, ConnectionError):
    """A peer is gone or gave up. Poisons the group."""

    class Cause(str, enum.Enum):
        """How it failed; equal to its name: error.cause == "killed"."""

        exited = "exited"  #: its process ended by itself before finalize
        killed = "killed"  #: its process was ended by a signal
        silent = "silent"  #: alive for the system, but stopped for longer than the limit
        aborted = "aborted"  #: it called abort, or an exception left its scope
        disconnected = "disconnected"  #: it has left the group, or its connection broke

    cause: Cause = Cause.disconnected


class ProtocolError(Error, ConnectionError):
    """Bytes on a connection that are not ours: another version, a broken or hostile peer."""


class ProcessEnd(typing.NamedTuple):
    """How one process that was started for a job ended."""

    rank: int  #: in the world of the job
    exit_code: int | None = None  #: unless a signal ended it
    signal: str | None = None  #: the name of the signal that ended it, "SIGKILL"
    error: BaseException | None = None  #: the exception that left its function
    traceback: str = ""  #: of that exception, in its process
    failed: bool = False
    is_consequence: bool = False  #: it failed because another had failed before, or was ended then


class LaunchFailed(Error, ChildProcessError):
    """A process that we were to start did not start, or did not end well. culprit: the rank that failed first."""

    ends: list = []  #: a ProcessEnd of every process that was started here, by rank


class RemoteError(Error, RuntimeError):
    """A call of a controller failed on its worker by an exception that cannot travel as it is. culprit: the number of the worker."""

    type: str = ""  #: of the exception on the worker: "ValueError"


class Cancelled(Error, concurrent.futures.CancelledError):
    """A call of a controller was cancelled before it had begun."""


def refusal(operation, what, hint=None, kind=InvalidArgument):
    """An error with this text, whose attributes are its parts."""
    error = kind(f"{operation}: {what}" + (f" ({hint})" if hint else ""))
    error.operation, error.message, error.hint = operation, what, hint
    return error


# What the extension asks for.

def make(name, text, fields):
    error = globals()[name](text)
    if "cause" in fields:
        fields["cause"] = PeerFailed.Cause(fields["cause"])
    error.__dict__.update(fields)
    return error


def last_line(error):
    """The line that Python prints last: "ValueError: bad data"."""
    try:
        text = str(error)
    except Exception:
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def name_of_function(function):
    """How errors name a function that combines arrays."""
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__qualname__
    code = getattr(function, "__code__", None)
    return f"{module}.{name}" + (f", line {code.co_firstlineno}" if code else "")


def key_of_function(function):
    """What the ranks compare of a function: its name and its code; "" where neither says what it does. And whether it has more: values from around it."""
    code = getattr(function, "__code__", None)

    def text(code):
        constants = [text(each) if hasattr(each, "co_code") else repr(each) for each in code.co_consts]
        return f"{code.co_code.hex()} {code.co_names} {constants}"

    if code is None:
        is_known = type(function).__name__ in ("ufunc", "builtin_function_or_method", "type")
        return (name_of_function(function), False) if is_known else ("", True)
    has_more = any(getattr(function, name, None) for name in ("__closure__", "__defaults__", "__kwdefaults__", "__self__"))
    return f"{name_of_function(function)} {text(code)}", has_more


def exact_mean(numbers):
    """The average, rounded once."""
    import fractions
    import math

    numbers = [x.item() if hasattr(x, "item") else x for x in numbers]
    numbers = [float(x) if not isinstance(x, int) else x for x in numbers]
    if not all(isinstance(x, int) or math.isfinite(x) for x in numbers):
        return sum(numbers) / len(numbers)
    return float(sum(map(fractions.Fraction, numbers)) / len(numbers))


for _class in (Error, *Error.__subclasses__(), Place, ProcessEnd):
    _class.__module__ = "unisono"
del _class
