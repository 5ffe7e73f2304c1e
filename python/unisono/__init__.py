"""unisono: the processes of a job act as one.

    import numpy, unisono

    with unisono.Context():
        x = numpy.full(4, unisono.rank() + 1.0)
        unisono.all_reduce(x)                   # every rank has the sum
        names = unisono.all_gather_object(unisono.hostname())

Start it with `unisono run -n 4 -- python program.py`, with torchrun, mpirun or srun, or alone. Buffers (NumPy, PyTorch, CuPy, whatever has the buffer
protocol or DLPack) are worked on in place; numbers and objects are returned. `unisono.torch` (package unisono-torch) is the backend "unisono" of
torch.distributed.

The examples of the docstrings show what each of two ranks prints, unless they say otherwise; `numpy` and `unisono` are imported.
"""

from . import _ending, _errors
from ._errors import AlreadyInitialized, BackendUnavailable, Cancelled, Error, InvalidArgument, LaunchFailed, Mismatch, NotInitialized, NotMember, PeerFailed
from ._errors import Place, ProcessEnd, ProtocolError, RemoteError, Timeout, Unsupported

try:
    from ._core import __version__
except ImportError as error:
    from ._paths import explain

    # Where there is none this is a build for PyTorch alone: unisono.torch works without it.
    explain(error)

    def __getattr__(name):
        raise AttributeError(f"unisono.{name}: this build has no extension (unisono._core); install the package with `pip install unisono`")

    __all__ = [name for name, value in vars(_errors).items() if isinstance(value, type) and issubclass(value, Error)]
else:
    from . import _places
    from ._calls import all_gather_list, collect_results, gather_list, one_rank_only, scatter_list, shared_array
    from ._core import *
    from ._context import Context, initialize, show_config
    from ._controller import Controller, Handle, Handles, Worker
    from ._futures import Futures
    from ._launch import Parallel, launch, run_threads, spawn
    from ._membership import Membership
    from ._paths import cmake_prefix, command
    from ._serving import actor, remote

    from . import _habits

    del end_all  # noqa: F821  (for _ending)
    __all__ = sorted(name for name in globals() if not name.startswith("_"))
    _habits.install(globals())

    def __getattr__(name):
        return _habits.found(name)
