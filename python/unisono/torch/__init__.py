"""The backend "unisono" of torch.distributed.

    import torch.distributed as dist
    import unisono.torch  # not needed if the package was installed by pip: then `import torch` finds it
    dist.init_process_group("unisono")

With UNISONO_STAND_IN=gloo in the environment, programs that name gloo get unisono, too.

`torch.ops.unisono` has the collectives as operators, which torch.compile takes as they are: all_reduce, all_gather, reduce_scatter, all_to_all return new
tensors and have gradients, all_reduce_ and broadcast_ work in place.

`unisono.torch.remote` has tensors on the workers of a controller.

`unisono.torch.SyncBatchNorm` is torch.nn.SyncBatchNorm for every device.

It serves tensors on the cpu, and on cuda where libunisono has its NCCL engine; "cpu:unisono,cuda:nccl" leaves the latter to PyTorch.
"""

import os
import sys


# Defined before torch is imported, because torch loads this module as an extension (group torch.backends) and may find it half imported.
def register() -> None:
    """Makes the backend known to torch.distributed. Importing this module does it."""
    from torch import distributed

    if not distributed.is_available():
        return
    if "UNISONO" not in distributed.Backend._plugins:
        distributed.Backend.register_backend(BACKEND, create, extended_api=True, devices=["cpu", "cuda"])
        _teach_monitored_barrier(distributed)
        _make_operators_known()
        _name_lines_of_program(os.path.dirname(distributed.__path__[0]))
        from . import _launcher_store

        _launcher_store.teach(distributed, _serves)
        from .. import _ending  # noqa: F401  (imported early, so that it is among the first to register for the end of the program)

    begin_remote()
    if os.environ.get("UNISONO_STAND_IN"):
        from . import _stand_in

        _stand_in.install(os.environ["UNISONO_STAND_IN"], distributed, create)


def _make_operators_known() -> None:
    # torch.ops.unisono loads the extension when an operator is first named, which may compile it, as the first group may.
    import torch

    class Operators(torch._ops._OpNamespace):
        __module__ = torch._ops._OpNamespace.__module__  # of which the operators' own names are made

        def __getattr__(self, name):
            if not name.startswith("__"):
                from . import _extension

                _extension.load()
            return super().__getattr__(name)

    torch.ops.unisono = Operators("unisono")


def begin_remote() -> None:
    """Makes the device "remote" known if there is a controller. A new one calls it, too."""
    serving = sys.modules.get("unisono._serving")
    if serving is not None and serving.current() is not None:
        from . import _remote

        _remote.install(may_compile=False)


def create(options, backend_options=None, *, name: str = "unisono"):
    """Makes a process group from torch.distributed's DistributedBackendOptions. `name` is its name in profilers.

    Raises ImportError if there is no extension for this PyTorch, and none can be compiled.
    """
    from .. import _ending
    from . import _extension, _ignite

    _ignite.teach()
    _extension.load()
    _ending.watch("unisono.torch._extension")
    return _extension.create(options, name, getattr(backend_options, "engine", "auto"), f"PyTorch {_minor_version()}")


BACKEND = "unisono"


def _serves(backend) -> bool:
    # Whether a default group of this backend, as init_process_group is given it, is ours.
    name = "" if backend is None else str(backend).lower()
    return BACKEND in name or (bool(os.environ.get("UNISONO_STAND_IN")) and (not name or "gloo" in name))


def is_unisono(group=None) -> bool:
    """True where unisono serves the group's tensors on the cpu, under its own name or in gloo's place. Without a group: the default one.

    Any member may call it alone. Raises ValueError if there is no default group, TypeError for an object that is not a process group of this rank.
    """
    import torch

    c10d = torch.distributed.distributed_c10d
    group = c10d._get_default_group() if group is None else group
    if not isinstance(group, c10d.ProcessGroup):
        raise TypeError(f"is_unisono: a process group that this rank belongs to is needed, not {group!r}")
    cpu = torch.device("cpu")
    if cpu not in group._device_types:
        return False
    backend = group._get_backend(cpu)
    backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL
    # Python knows our class by its base alone.
    return type(backend) is torch._C._distributed_c10d.Backend and backend.name() in (BACKEND, "gloo")


def __getattr__(name: str):
    # On demand, since this module is imported before torch.nn is there.
    if name != "SyncBatchNorm":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._sync_batch_norm import SyncBatchNorm

    return SyncBatchNorm


def _minor_version() -> str:
    # All ranks of a job have the same: what torch sends beside the tensors differs between its minor versions.
    import torch

    return ".".join(torch.__version__.split("+")[0].split(".")[:2])


def _name_lines_of_program(torch: str) -> None:
    # Errors and records name the line that has called PyTorch, not PyTorch's own.
    try:
        from .. import _core
    except ImportError:  # a build for PyTorch alone: calls have no lines
        return
    _core._leave_out(torch + os.sep, is_ours=True)


def _teach_monitored_barrier(distributed) -> None:
    # monitored_barrier is the only function of torch.distributed that tests for a backend by name.
    from datetime import timedelta
    from functools import wraps

    c10d = distributed.distributed_c10d
    original = c10d.monitored_barrier

    @wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        if c10d._rank_not_in_group(group) or distributed.get_backend(group) != BACKEND:
            return original(group, timeout, wait_all_ranks)
        if timeout is None:
            timeout = c10d._get_default_timeout(BACKEND)
        elif isinstance(timeout, (int, float)):
            timeout = timedelta(seconds=timeout)
        c10d._check_valid_timeout(timeout)
        return (group or c10d._get_default_group()).monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    c10d.monitored_barrier = distributed.monitored_barrier = monitored_barrier


register()
