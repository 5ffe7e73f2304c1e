"""Horovod's functions, over unisono: unisono.horovod.torch."""

import torch

from ... import horovod
from ...horovod import torch as hvd
from ...horovod.torch import _job
from .base import ComputationModel, is_list_of_ranks

has_hvd_support = torch.distributed.is_available()
HOROVOD = "horovod"


class _HorovodDistModel(ComputationModel):
    """The job that hvd.init has formed, with any caller. Groups are process sets."""

    name = "horovod-dist"
    available_backends = (HOROVOD,)

    _OPERATIONS = {"SUM": hvd.Sum, "AVG": hvd.Average, "ADASUM": hvd.Adasum, "MIN": hvd.Min, "MAX": hvd.Max, "PRODUCT": hvd.Product}
    _operations = frozenset(_OPERATIONS)

    def __init__(self, is_ours):
        self._is_ours = is_ours
        self._worker = hvd.global_process_set._worker

    @classmethod
    def check_options(cls, operation, options, starts_processes=False):
        """Raises TypeError for a keyword argument that neither hvd.init has, nor horovod.run where it starts the processes."""
        known = horovod.RUN_ARGUMENTS if starts_processes else ("comm", "process_sets")
        for name in options:
            if name not in known:
                raise TypeError(f"{operation}() got an unexpected keyword argument '{name}', which Horovod does not have")

    @staticmethod
    def create_from_context():
        return _HorovodDistModel(is_ours=False) if hvd.is_initialized() else None

    @staticmethod
    def create_from_backend(backend=HOROVOD, init_method=None, comm=None, process_sets=None, **kwargs):
        """Calls hvd.init. `comm`: a list of ranks, or a communicator of mpi4py. TypeError for an init_method: the launcher says where the ranks meet."""
        if backend != HOROVOD:
            raise ValueError(f"Backend should be one of '{_HorovodDistModel.available_backends}'")
        _HorovodDistModel.check_options("initialize", kwargs if init_method is None else {"init_method": init_method})
        if hvd.is_initialized():
            raise RuntimeError("Can not re-initialize Horovod if it is already initialized")
        hvd.init(comm, process_sets)
        if torch.cuda.is_available():
            torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
        return _HorovodDistModel(is_ours=True)

    def is_alive(self):
        """Whether Horovod is initialized, and not for another time."""
        return hvd.is_initialized() and hvd.global_process_set._worker is self._worker

    def get_local_rank(self):
        return hvd.local_rank()

    def get_rank(self):
        return hvd.rank()

    def get_world_size(self):
        return hvd.size()

    def get_nproc_per_node(self):
        return hvd.local_size()

    def get_nnodes(self):
        return _job.hosts()[1]

    def get_node_rank(self):
        return _job.hosts()[0]

    def device(self):
        return self._current_gpu_or_cpu()

    def backend(self):
        return HOROVOD

    def finalize(self):
        """Calls hvd.shutdown where initialize has called hvd.init."""
        if self._is_ours:
            hvd.shutdown()

    @staticmethod
    def spawn(fn, args, kwargs_dict=None, nproc_per_node=1, hosts=None, backend=HOROVOD, **kwargs):
        """horovod.run of fn(local_rank, *args, **kwargs_dict); hosts and kwargs are its arguments."""
        if kwargs.pop("nnodes", 1) > 1 or kwargs.pop("node_rank", 0) > 0:
            raise RuntimeError("For multi-node configuration, please set 'hosts' argument instead according to horovod.run API.")
        _HorovodDistModel.check_options("spawn", kwargs, starts_processes=True)
        from ..utils import _run_in_job

        return horovod.run(_run_in_job, (HOROVOD, {}, fn, tuple(args), dict(kwargs_dict or {})), num_proc=nproc_per_node, hosts=hosts, **kwargs)

    def _setup_group(self, group):
        if group is None or isinstance(group, hvd.ProcessSet):
            return group
        if not is_list_of_ranks(group):
            raise ValueError(f"Argument group should be list of int or hvd.ProcessSet, got {type(group)}, group={group}")
        return hvd._process_sets.of_ranks(group) or self.new_group(list(group))

    def _do_new_group(self, ranks, **kwargs):
        for name in kwargs:
            raise TypeError(f"new_group() got an unexpected keyword argument '{name}', which a process set does not have")
        return hvd.add_process_set(ranks)

    def _rank_not_in_group(self, group):
        if group is None:
            return False
        return not (self.get_rank() in group if is_list_of_ranks(group) else group.included())

    def _group_ranks(self, group):
        return super()._group_ranks(group) if group is None else group.ranks

    def _do_all_reduce(self, tensor, op, group=None):
        hvd.allreduce_(tensor, op=self._OPERATIONS[op], process_set=group or hvd.global_process_set)

    def _do_all_gather(self, tensor, group=None):
        return hvd.allgather(tensor, process_set=group or hvd.global_process_set)

    def _do_broadcast(self, tensor, src, group=None):
        hvd.broadcast_(tensor, src, process_set=group or hvd.global_process_set)

    def barrier(self, group=None):
        group = self._setup_group(group)
        if not self._rank_not_in_group(group):
            hvd.barrier(group or hvd.global_process_set)
