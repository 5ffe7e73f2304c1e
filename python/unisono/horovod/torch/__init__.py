"""The names of `horovod.torch` (0.28), on torch.distributed with the backend "unisono".

    import unisono.horovod.torch as hvd            # was: import horovod.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

Start it with `unisono run -n 4 -- python train.py` in place of `horovodrun -np 4 python train.py`. A call is known by its name, as in Horovod, and ranks may
make their calls in different orders. docs/coming-from/horovod.md lists what differs.
"""

from . import elastic
from ._job import ccl_built, cross_rank, cross_size, cuda_built, ddl_built, gloo_built, gloo_enabled, init, is_homogeneous, is_initialized, local_rank
from ._job import local_size, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank, rocm_built, shutdown, size
from ._moving import allgather, allgather_async, alltoall, alltoall_async, barrier, broadcast, broadcast_, broadcast_async, broadcast_async_
from ._moving import grouped_allgather, grouped_allgather_async, join
from ._process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ._reducing import allreduce, allreduce_, allreduce_async, allreduce_async_, grouped_allreduce, grouped_allreduce_, grouped_allreduce_async
from ._reducing import grouped_allreduce_async_, grouped_reducescatter, grouped_reducescatter_async, reducescatter, reducescatter_async
from ._reducing import sparse_allreduce_async
from ._requests import Adasum, Average, HorovodInternalError, Max, Min, Product, Sum
from ._timeline import start_timeline, stop_timeline
from ._worker import poll, synchronize
from .compression import Compression
from .functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from .optimizer import DistributedOptimizer
from .sync_batch_norm import SyncBatchNorm

__all__ = sorted(name for name, value in list(globals().items()) if not name.startswith("_") and type(value).__name__ != "module")

from . import mpi_ops  # noqa: E402  (it has the names above)
