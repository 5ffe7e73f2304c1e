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
from ._objects import (
    all_gather_object,
    broadcast_object_list,
    collect_results,
    collect_results_cpu,
    collect_results_gpu,
    gather_object,
    sync_random_seed,
)
from .utils import *

__all__ = [
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "all_reduce_dict",
    "all_reduce_params",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "cast_data_device",
    "collect_results",
    "collect_results_cpu",
    "collect_results_gpu",
    "gather",
    "gather_object",
    "get_backend",
    "get_comm_device",
    "get_data_device",
    "get_default_group",
    "get_dist_info",
    "get_local_group",
    "get_local_rank",
    "get_local_size",
    "get_rank",
    "get_world_size",
    "infer_launcher",
    "init_dist",
    "init_local_group",
    "is_distributed",
    "is_main_process",
    "master_only",
    "sync_random_seed",
]
