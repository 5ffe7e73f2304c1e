"""The 31 names of `mmengine.dist`, on unisono.

    import unisono.mmengine as dist        # was: import mmengine.dist as dist

    dist.init_dist("pytorch")              # started by `unisono run`, torchrun, mpirun or srun; needs no GPU
    dist.all_reduce(loss, op="mean")       # in place; alone every call returns what a job of one process would

Modules that import parts of the original find them in `unisono.mmengine.dist`, `unisono.mmengine.dist.utils` and `unisono.mmengine.utils`.

It runs on torch.distributed, so that DistributedDataParallel and whatever else uses the default group goes on working. docs/coming-from/mmengine.md lists
what differs from the original.
"""

from torch.distributed import ReduceOp

from ._collectives import all_gather, all_reduce, all_reduce_dict, all_reduce_params, broadcast, gather
from ._objects import all_gather_object, broadcast_object_list, collect_results, collect_results_cpu, collect_results_gpu, gather_object, sync_random_seed
from .utils import *

__all__ = sorted(name for name, value in globals().items() if callable(value) and value is not ReduceOp)
