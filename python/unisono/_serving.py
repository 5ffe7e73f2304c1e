"""Calls of a controller: what a worker finds by its name, and how exceptions travel."""

import copy
import copyreg
import importlib
import operator
import pickle
import sys
import threading
import traceback
import weakref

from . import _core, _ending
from ._errors import Error, InvalidArgument, RemoteError, Timeout, last_line, refusal

_BY_NAME = "it is called by its name: it stands at the top level of a module or of the program's file, and what it needs are arguments"

# Functions of the extension are found by their names, as those of a module in Python are.
copyreg.pickle(type(_core.rank), operator.attrgetter("__name__"))


class _Sending(threading.local):
    """Whether this thread writes the arguments of a call."""

    is_under_way = False

    def __enter__(self):
        self.is_under_way = True

    def __exit__(self, *error):
        self.is_under_way = False


sending = _Sending()

_functions: dict = {}  # what was decorated: name -> (function, parameters)
_classes: dict = {}


def name_of(target):
    """The name by which processes know a function or class. The main module of a new process has another one."""
    module = getattr(target, "__module__", None) or "builtins"
    return f"{'__main__' if module == '__mp_main__' else module}.{getattr(target, '__qualname__', None) or type(target).__qualname__}"


def _parameters(function):
    code = getattr(function, "__code__", None)
    if code is None:
        return "(…)"
    return f"({', '.join(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])})"


def _line(target):
    code = getattr(target, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else None


def _register(table, target, parameters, what):
    name, line = name_of(target), _line(target)
    if "<locals>" in name:
        raise refusal(what, f"{name} is defined in a function, and no other process would find it", _BY_NAME)
    before = _line(table[name][0]) if name in table else None
    if before and line and before[0] == line[0] and before[1] != line[1]:  # a module that is read again has the same lines, a notebook other files
        raise refusal(what, f"{name} is registered twice: in lines {before[1]} and {line[1]} of {line[0]}", "give one of them another name")
    table[name] = (target, parameters)
    return target


def remote(function):
    """Registers a function that a controller may call by its name.

    If pickles are allowed, any function at the top level of a module may be called, registered or
    not. With UNISONO_PICKLE=off only registered ones are called, with data as arguments and results:
    None, numbers, str, bytes, paths, arrays, and lists, tuples and dicts of them.

    Parameters
    ----------
    function : callable
        A function at the top level of a module or of the program's file.

    Returns
    -------
    callable
        `function`.

    Raises
    ------
    InvalidArgument
        If it is not a function, is defined in a function, or its name is registered already.

    Examples
    --------
    Alone:

    >>> import math
    >>> factorial = unisono.remote(math.factorial)   # as @unisono.remote above one's own function
    >>> with unisono.Controller(workers=2) as workers:
    ...     workers.sum(workers.call(factorial, 5))
    240
    """
    if not callable(function) or isinstance(function, type):
        raise refusal("remote", f"{function!r} is no function", "@unisono.actor is for classes")
    return _register(_functions, function, _parameters(function), "remote")


def actor(type_):
    """Registers a class of which a controller may make objects on its workers.

    It may do so even if pickles are forbidden: see `remote`.

    Parameters
    ----------
    type_ : type
        A class at the top level of a module or of the program's file.

    Returns
    -------
    type
        `type_`.

    Raises
    ------
    InvalidArgument
        If it is not a class, is defined in a function, or its name is registered already.

    Examples
    --------
    Alone:

    >>> import collections
    >>> Counter = unisono.actor(collections.Counter)  # as @unisono.actor above one's own class
    >>> with unisono.Controller(workers=2) as workers:
    ...     counters = workers.make(Counter)
    ...     updates = counters.update.call("abca")
    ...     counters[0].most_common.call(1).result()
    [('a', 2)]
    """
    if not isinstance(type_, type):
        raise refusal("actor", f"{type_!r} is no class", "@unisono.remote is for functions")
    return _register(_classes, type_, _parameters(type_.__init__), "actor")


# In the controller.

_current = None  # the last job, as a weak reference


def begin(job):
    """Tells those whose data may be on workers that there is a controller."""
    global _current
    _current = weakref.ref(job)
    if "unisono.torch" in sys.modules:
        sys.modules["unisono.torch"].begin_remote()


def current():
    """The job of the controller of this process; None without one."""
    job = None if _current is None else _current()
    return None if job is None or job.has_ended else job


def call_before_others(worker, function):
    """Lets a worker run a function of this package before the calls that are made after this one. Nobody waits for it."""
    job = current()
    if job is not None:
        job.call(worker, worker + 1, function, function if job.workers.may_pickle else by_name(function, False), (), {})


def by_name(target, is_class):
    """The data that is sent in place of a function or class if pickles are forbidden."""
    known = (_classes if is_class else _functions).get(name_of(target))
    if known is None or known[0] is not target:
        decorator = "actor" if is_class else "remote"
        raise refusal("call", f"{name_of(target)} is not registered, and pickles, by which others travel, are not allowed here",
                      f"decorate it with @unisono.{decorator}")
    return name_of(target), known[1]


def refuse(name, target, arguments, keywords, error):
    """Raises InvalidArgument, which says what of a call cannot be sent. Returns where all of it can be."""
    parts = [(name, target, _BY_NAME)]
    parts += [(f"argument {i} of {name}, a {type(x).__name__},", x, None) for i, x in enumerate(arguments, 1)]
    parts += [(f"the argument {key} of {name}, a {type(x).__name__},", x, None) for key, x in keywords.items()]
    for what, x, hint in parts:
        try:
            pickle.dumps(x, protocol=5)
        except Exception:
            raise refusal("call", f"{what} cannot be sent: {type(error).__name__}: {error}", hint) from error


def arrived(parcel, may_pickle, function, worker, where):
    """The exception of a call that a worker has told of."""
    pickled, type_, message, trace = parcel
    error = None
    if pickled is not None and may_pickle:
        try:
            error = pickle.loads(pickled)
        except Exception:  # its class is known to the worker alone
            pass
    if not isinstance(error, BaseException):
        error = RemoteError(f"call: worker {worker}: {function}: {type_}{': ' if message else ''}{message}")
        error.operation, error.message, error.culprit, error.type, error.where = "call", message, worker, type_, where
    note = f"{function} on worker {worker}{f', called at {where}' if where else ''}:\n{trace.rstrip()}"
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        from ._processes import RemoteTraceback

        error.__cause__ = RemoteTraceback(note)
    return error


# On a worker.


def _with_workers(error):
    """The same exception for the controller, which knows workers by their numbers, not by their ranks in a group of this process."""
    if not isinstance(error, Error) or error.culprit is None:
        return error

    def number(culprit):
        world_culprit = error.world_culprit if culprit == error.culprit else None
        return _core._blamed_worker(error.group or "", -1 if error.rank is None else error.rank, culprit, -1 if world_culprit is None else world_culprit)

    told = copy.copy(error)
    told.culprit = number(error.culprit)
    if told.culprit < 0:
        told.culprit = _core.worker_number()
    if isinstance(error, Timeout):
        told.missing = [i for i in map(number, error.missing) if i >= 0]
    return told


def failed(error, may_pickle):
    """The data that the controller gets of an exception: the exception as a pickle, its type, its text, the traceback."""
    pickled = None
    if may_pickle and isinstance(error, Exception):
        try:
            pickled = pickle.dumps(_with_workers(error), protocol=5)
            pickle.loads(pickled)
        except Exception:
            pickled = None
    type_ = type(error)
    name = type_.__qualname__ if type_.__module__ in ("builtins", "unisono") else f"{type_.__module__}.{type_.__qualname__}"
    try:
        message = str(error) if isinstance(error, Exception) else _ending.describe(error) or "left by sys.exit"
    except Exception:
        message = ""
    return pickled, name, message, "".join(traceback.format_exception(type_, error, error.__traceback__))


def _known(table, target, what):
    name, parameters = target
    if name not in table and name.startswith("unisono."):  # of this package, which may not be imported here yet
        importlib.import_module(name.rpartition(".")[0])
    if name not in table:
        raise refusal("call", f"this worker has no {what} {name}", f"it has those alone that were decorated here, and {name} was not")
    found, own = table[name]
    if own != parameters:
        raise refusal("call", f"{name}{parameters} is {name}{own} on this worker", "both processes run the same version of the program")
    return found


def function_of(target):
    return _known(_functions, target, "function")


def class_of(target):
    return _known(_classes, target, "class")


class _NotMade:
    def __init__(self, error):
        self.error = error


def maker_of(target, is_registered, put):
    """Makes an object and puts it where its methods find it; or what its methods raise."""

    def make(*args, **kwargs):
        try:
            put((class_of(target) if is_registered else target)(*args, **kwargs))
        except BaseException as error:
            put(_NotMade(error))
            raise

    return make


def method_of(object, name):
    if isinstance(object, _NotMade):
        raise object.error
    if name.startswith("_"):
        raise InvalidArgument(f"call: {name} is not a method that others may call")
    return getattr(object, name)


@remote
def serve_tensors():
    """Loads the library that runs operators on tensors of this worker. If it cannot be loaded, the operators fail, and say why."""
    try:
        from .torch import _extension

        _extension.load()
    except Exception as error:
        why = f"remote tensors need unisono.torch and PyTorch on this worker, which cannot be loaded: {last_line(error)}"
        _core._refuse_command("torch.remote", "(command) -> answer", why)  # those of src/torch/remote/wire.h
        raise


def serve(local_rank, backend, timeout, most_in_flight):
    """The work of a process that a controller has started."""
    return _core._meet_workers(0, backend, timeout, most_in_flight)
