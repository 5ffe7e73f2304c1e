"""The exceptions of the library: one class for each of C++, with the same names and attributes."""

import concurrent.futures
import enum
import os
import typing


class Place(typing.NamedTuple):
    """A line of a program; str() is "train.py:57".

    Parameters
    ----------
    file : str
        The path of the file.
    line : int
        The number of the line.

    Examples
    --------
    >>> place = unisono.Place("/home/me/train.py", 57)
    >>> str(place), place.line
    ('train.py:57', 57)
    """

    file: str
    line: int

    def __str__(self):
        return f"{os.path.basename(self.file)}:{self.line}"


class Error(Exception):
    """The base of everything that unisono raises.

    str() is the whole sentence. The attributes are its parts; a part is None if there is nothing to
    say.

    Attributes
    ----------
    message : str
        The sentence without operation, group and hint.
    operation : str or None
        The call, as the program spells it: "all_reduce".
    group : str or None
        The name of the group; "world" for the default one.
    sequence : int or None
        The number of the operation within its group, from 1.
    rank : int or None
        The caller's rank in the group.
    culprit : int or None
        The rank in the group that caused the error.
    world_culprit : int or None
        The culprit's rank in the world.
    host : str or None
        The culprit's host.
    hint : str or None
        Advice: the next step.
    where : Place or None
        The call in the caller's source.

    Examples
    --------
    >>> try:
    ...     unisono.broadcast(1, src=7)
    ... except unisono.Error as error:
    ...     print(error.operation, error.group, error.rank == unisono.rank())
    broadcast world True
    """

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
    """A call that is wrong by itself. Nothing was sent, and the group stays usable.

    It is a ValueError as well.

    Examples
    --------
    >>> try:
    ...     unisono.all_reduce(numpy.zeros(3), out=numpy.zeros(4))
    ... except unisono.InvalidArgument as error:
    ...     print(error.operation, error.culprit)
    all_reduce None
    """


class NotInitialized(Error, RuntimeError):
    """The process is not in its job: it has not called `initialize`, or has left.

    A child of fork gets it as well. It is a RuntimeError.

    Examples
    --------
    >>> member = unisono.Membership(unisono.MemoryStore())
    >>> group = member.group()
    >>> member.leave()
    >>> try:
    ...     unisono.barrier(group)
    ... except unisono.NotInitialized:
    ...     print("left")
    left
    """


class AlreadyInitialized(Error, RuntimeError):
    """`initialize` was called twice, or the program starts processes within a job.

    It is a RuntimeError as well.

    Examples
    --------
    In a job:

    >>> try:
    ...     unisono.initialize()
    ... except unisono.AlreadyInitialized:
    ...     print("joined before")
    joined before
    """


class NotMember(Error, RuntimeError):
    """The calling process does not belong to the group. It is a RuntimeError as well.

    Only members hold a group: `new_group` and `split_group` return None to any other process.

    Examples
    --------
    >>> group = unisono.new_group([0])
    >>> (group is None) == (unisono.rank() != 0)
    True
    """


class Unsupported(Error, NotImplementedError):
    """This backend cannot do the operation for this dtype or device; another may.

    It is a NotImplementedError as well.

    Examples
    --------
    Alone:

    >>> try:
    ...     unisono.run_threads(2, lambda rank: unisono.new_group(backend="tcp"))
    ... except unisono.Unsupported as error:
    ...     print(error.hint)
    start processes
    """


class BackendUnavailable(Error, RuntimeError):
    """The backend cannot run here; the message says what is missing.

    It is a RuntimeError as well.

    Examples
    --------
    Alone:

    >>> try:
    ...     unisono.initialize("nccl")
    ... except unisono.BackendUnavailable:           # there is no GPU
    ...     unisono.initialize("native")
    >>> unisono.finalize()
    """


class Mismatch(Error, RuntimeError):
    """The ranks called different things. Every rank raises it; the group stays usable.

    Nothing was moved. It is a RuntimeError as well.

    Examples
    --------
    On each of two ranks:

    >>> try:
    ...     unisono.all_reduce(numpy.zeros(3 + unisono.rank()))
    ... except unisono.Mismatch as error:
    ...     print(error.operation)
    all_reduce
    >>> unisono.all_reduce(1)
    2
    """


class Timeout(Error, TimeoutError):
    """A deadline passed. It ends the group: later calls raise the same at once.

    It is a TimeoutError as well.

    Attributes
    ----------
    missing : list of int
        The ranks that did not arrive, ascending.

    Examples
    --------
    >>> try:
    ...     unisono.MemoryStore().get("address", timeout=0.01)
    ... except unisono.Timeout as error:
    ...     print("address" in str(error))
    True
    """

    missing: list[int] = []  #: the ranks that did not arrive, ascending


class PeerFailed(Error, ConnectionError):
    """A peer is gone or has given up. It ends the group.

    `shrink_group` makes a new group of the survivors. It is a ConnectionError as well.

    Attributes
    ----------
    cause : PeerFailed.Cause
        How the peer failed: exited, killed, silent, aborted or disconnected. It is equal to its name.

    Examples
    --------
    On each of two ranks:

    >>> group = unisono.new_group()
    >>> if unisono.rank() == 1:
    ...     group.abort("out of memory")
    >>> try:
    ...     unisono.barrier(group)
    ... except unisono.PeerFailed as error:
    ...     print(error.cause.name)
    aborted
    """

    class Cause(str, enum.Enum):
        """How it failed; equal to its name: error.cause == "killed"."""

        exited = "exited"  #: its process ended by itself before finalize
        killed = "killed"  #: its process was ended by a signal
        silent = "silent"  #: alive for the system, but stopped for longer than the limit
        aborted = "aborted"  #: it called abort, or an exception left its scope
        disconnected = "disconnected"  #: it has left the group, or its connection broke

    cause: Cause = Cause.disconnected


class ProtocolError(Error, ConnectionError):
    """Bytes on a connection that are not ours: another version, a broken or hostile peer.

    It is a ConnectionError as well.

    Examples
    --------
    >>> try:
    ...     unisono.barrier()
    ... except unisono.ProtocolError as error:       # from a process of another version
    ...     print(error.hint)
    """


class ProcessEnd(typing.NamedTuple):
    """How one process that was started for a job has ended.

    Parameters
    ----------
    rank : int
        Its rank in the world of the job.
    exit_code : int, optional
        Its code, unless a signal has ended it.
    signal : str, optional
        The name of the signal that has ended it: "SIGKILL".
    error : BaseException, optional
        The exception that has left its function.
    traceback : str, default ""
        The traceback of that exception, in its process.
    failed : bool, default False
        Whether it has not ended well.
    is_consequence : bool, default False
        Whether it failed because another had failed before, or was ended then.

    Examples
    --------
    >>> end = unisono.ProcessEnd(rank=1, signal="SIGKILL", failed=True)
    >>> end.rank, end.exit_code, end.signal
    (1, None, 'SIGKILL')
    """

    rank: int  #: in the world of the job
    exit_code: int | None = None  #: unless a signal ended it
    signal: str | None = None  #: the name of the signal that ended it, "SIGKILL"
    error: BaseException | None = None  #: the exception that left its function
    traceback: str = ""  #: of that exception, in its process
    failed: bool = False
    is_consequence: bool = False  #: it failed because another had failed before, or was ended then


class LaunchFailed(Error, ChildProcessError):
    """A process of the job did not start, or did not end well.

    `culprit` is the rank that failed first. It is a ChildProcessError as well.

    Attributes
    ----------
    ends : list of ProcessEnd
        The ends of all processes that were started here, by rank.

    Examples
    --------
    Alone; divmod(local_rank, 0) raises in each process:

    >>> try:
    ...     unisono.spawn(divmod, 0, nproc_per_node=2)
    ... except unisono.LaunchFailed as failure:
    ...     print(type(failure.__cause__).__name__, len(failure.ends))
    ZeroDivisionError 2
    """

    ends: list[ProcessEnd] = []  #: a ProcessEnd of every process that was started here, by rank


class RemoteError(Error, RuntimeError):
    """A call of a controller failed on its worker by an exception that cannot travel.

    `culprit` is the number of the worker. It is a RuntimeError as well.

    Attributes
    ----------
    type : str
        The type of the exception on the worker: "ValueError".

    Examples
    --------
    Alone:

    >>> program = "class Odd(Exception): pass" "\\n" "raise Odd(7)"
    >>> with unisono.Controller(workers=2) as workers:
    ...     try:
    ...         workers[1].call(exec, program, {}).result()
    ...     except unisono.RemoteError as error:
    ...         print(error.type, error.culprit)
    Odd 1
    """

    type: str = ""  #: of the exception on the worker: "ValueError"


class Cancelled(Error, concurrent.futures.CancelledError):
    """A call of a controller was cancelled before it had begun.

    It is a concurrent.futures.CancelledError as well.

    Examples
    --------
    Alone:

    >>> import time
    >>> with unisono.Controller(workers=1) as workers:
    ...     first, second = workers[0].call(time.sleep, 1), workers[0].call(time.sleep, 60)
    ...     if second.cancel():
    ...         try:
    ...             second.result()
    ...         except unisono.Cancelled:
    ...             print("left out")
    left out
    """


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
    """The text by which ranks compare a function: its name and its code; "" if neither says what it does. And whether it has more: values from around
    it."""
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
