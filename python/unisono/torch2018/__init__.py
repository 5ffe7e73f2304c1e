"""The names of torch.distributed as it was in 2018 (PyTorch 0.2 to 1.0), on unisono.

    import unisono.torch2018 as dist            # was: import torch.distributed as dist

    dist.init_process_group("tcp", init_method="tcp://10.1.1.20:23456", rank=args.rank, world_size=4)
    dist.all_reduce(tensor, op=dist.reduce_op.SUM)

Needs PyTorch 2.1 or newer. The group is unisono's world, so that unisono's own functions work beside these. DistributedDataParallel and
DistributedDataParallelCPU, which were torch.nn.parallel's, are here as well. docs/coming-from/torch-2018.md lists what differs from the original.
"""

from ._collectives import _DistributedRequest, all_gather, all_reduce, barrier, broadcast, gather, reduce, reduce_op, scatter
from ._job import _INITIALIZED_MW, _INITIALIZED_PG, Backend, GroupMember, _clear_group_cache, _get_default_group, _register_stream, destroy_process_group
from ._job import dist_backend, get_backend, get_rank, get_world_size, group, init_process_group, is_available, is_initialized, is_mpi_available, is_nccl_available
from ._job import new_group
from ._master_worker import init_master_worker
from ._messages import irecv, isend, recv, send
from ._multigpu import all_gather_multigpu, all_reduce_multigpu, broadcast_multigpu, reduce_multigpu
from ._parallel import DistributedDataParallel, DistributedDataParallelCPU

ReduceOp = reduce_op

__all__ = sorted(name for name, value in list(globals().items()) if not name.startswith("_") and type(value).__name__ != "module")


def _extend_scope(module):
    """Gives this module the public names of another one. reduce_op and group stay the objects that calls have as defaults."""
    kept = ("reduce_op", "group")
    globals().update({name: getattr(module, name) for name in dir(module) if not name.startswith("_") and name not in kept})


def __getattr__(name):
    from ._job import _mode, _State

    if name == "_initialized":
        return _mode()
    if name == "_backend":
        return _State.backend if _mode() else dist_backend.UNDEFINED
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
