"""initialize and finalize, as functions and as a scope."""

import sys

from . import _core, _ending
from ._errors import InvalidArgument


def initialize(backend="auto", *, init_method="env://", rank=None, world_size=None, local_rank=None, group_name="", timeout=None, store=None):
    """Joins the job, and returns when all of its processes have.

    A program that was not launched is rank 0 of 1. A call that fails may be repeated.

    Parameters
    ----------
    backend : str or InitOptions, default "auto"
        One of auto, serial, native, tcp, gloo, mpi, ucx, nccl, "cpu:native,cuda:nccl", or a
        backend that a plug-in registers. InitOptions have everything, and nothing is given
        beside them.
    init_method : str, default "env://"
        The place where the processes meet: env:// (what the launcher says), tcp://host:port,
        file:///path or etcd://host:port/prefix.
    rank, world_size, local_rank : int, optional
        The numbers of this process, if no launcher tells them.
    group_name : str, default ""
        A name by which several jobs share one file or multicast address.
    timeout : float or timedelta, optional
        The seconds of every call that says nothing else. None stands for UNISONO_TIMEOUT, or 30
        minutes.
    store : Store, optional
        A store in which the processes meet, in place of `init_method`. `rank` and `world_size` are
        given beside it.

    Raises
    ------
    AlreadyInitialized
        If the process has joined a job already.
    InvalidArgument
        If an option is malformed, contradicts the environment, or names an unknown backend.
    BackendUnavailable
        If the backend cannot run here. The message says what is missing.
    Timeout
        If ranks do not come in time. `missing` lists them.
    PeerFailed
        If a process that has begun to join has died.
    ProtocolError
        If the ranks have different versions of unisono.

    Examples
    --------
    Alone:

    >>> unisono.initialize()
    >>> unisono.rank(), unisono.world_size()
    (0, 1)
    >>> unisono.finalize()
    """
    given = {"init_method": init_method, "rank": rank, "world_size": world_size, "local_rank": local_rank, "group_name": group_name, "timeout": timeout}
    given["store"] = store
    options = backend
    if not isinstance(backend, _core.InitOptions):
        options = _core.InitOptions(backend, **given)
    elif tuple(given.values()) != ("env://", None, None, None, "", None, None):
        raise InvalidArgument("initialize: InitOptions has everything, and nothing is given beside it: set the attributes of the options")
    _core._initialize(options)
    _ending.watch("unisono._core")


class Context:
    """A scope that joins the job at its start and leaves it at its end.

    An exception that leaves the scope tells the other ranks why: their calls raise PeerFailed with
    its text.

    Parameters
    ----------
    backend : str or InitOptions, default "auto"
        As in `initialize`.
    **options
        The other arguments of `initialize`.

    Methods
    -------
    record()
        Returns the last calls of this rank: see `unisono.record`.

    Raises
    ------
    Error
        At the start of the scope, the exceptions of `initialize`.

    Examples
    --------
    Alone:

    >>> with unisono.Context():
    ...     unisono.all_reduce(3)
    3
    """

    def __init__(self, backend="auto", **options):
        self._backend, self._options = backend, options

    def __enter__(self):
        initialize(self._backend, **self._options)
        return self

    def record(self):
        """Returns the last calls of this rank: see unisono.record."""
        return _core.record()

    def __exit__(self, type, error, traceback):
        if error is None or (isinstance(error, SystemExit) and not error.code):
            _core.finalize()
        else:
            _core._leave_because(_ending.describe(error) or "left its scope")


def show_config(file=None):
    """Writes ten lines about the process and its job, on rank 0.

    Parameters
    ----------
    file : file, optional
        The file to write to. None stands for the standard error output.

    Raises
    ------
    NotInitialized
        In a launched process that has not called `initialize`.

    Examples
    --------
    >>> import io
    >>> text = io.StringIO()
    >>> unisono.show_config(text)
    >>> ("world size" in text.getvalue()) == (unisono.rank() == 0)
    True
    """
    print(_core._configuration(), end="", file=file or sys.stderr)
