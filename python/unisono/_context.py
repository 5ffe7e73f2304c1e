"""initialize and finalize, as functions and as a scope."""

import sys

from . import _core, _ending
from ._errors import InvalidArgument


def initialize(backend="auto", *, init_method="env://", rank=None, world_size=None, local_rank=None, group_name="", timeout=None, store=None):
    given = {"init_method": init_method, "rank": rank, "world_size": world_size, "local_rank": local_rank, "group_name": group_name, "timeout": timeout}
    given["store"] = store
    options = backend
    if not isinstance(backend, _core.InitOptions):
        options = _core.InitOptions(backend, **given)
    elif tuple(given.values()) != ("env://", None, None, None, "", None, None):
        raise InvalidArgument("initialize: InitOptions has everything, and nothing is given beside it: set the attributes of the options")
    _core.initialize(options)
    _ending.watch("unisono._core")


initialize.__doc__ = _core.initialize.__doc__.split("\n\n", 1)[-1] if _core.initialize.__doc__ else None


class Context:
    """initialize and finalize as a scope; takes what initialize takes.

    An exception that leaves the scope tells the other ranks why: their calls raise PeerFailed with its text.

        with unisono.Context():
            unisono.barrier()
    """

    def __init__(self, backend="auto", **options):
        self._backend, self._options = backend, options

    def __enter__(self):
        initialize(self._backend, **self._options)
        return self

    def record(self):
        """The last calls of this rank: see unisono.record."""
        return _core.record()

    def __exit__(self, type, error, traceback):
        if error is None or (isinstance(error, SystemExit) and not error.code):
            _core.finalize()
        else:
            _core._leave_because(_ending.describe(error) or "left its scope")


def show_config(file=None):
    """Ten lines about the process and its job, on rank 0, to `file` or the standard error output."""
    print(_core._configuration(), end="", file=file or sys.stderr)
