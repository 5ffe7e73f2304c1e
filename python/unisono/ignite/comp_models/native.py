"""torch.distributed over the backend "unisono"."""

import inspect
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import unisono
import unisono.torch  # noqa: F401  (makes the backend known)

from ..._job_store import init_process_group, tcp_store
from .. import _meeting, _nodes
from .base import ComputationModel, is_list_of_ranks

has_native_dist_support = dist.is_available()
UNISONO, GLOO, NCCL, MPI = "unisono", "gloo", "nccl", "mpi"

# What torch.distributed is given for a name. NCCL has the tensors on GPUs; what the host says, it says over unisono.
_TORCH_BACKENDS = {UNISONO: "unisono", GLOO: "unisono", NCCL: "cpu:unisono,cuda:nccl", MPI: "unisono"}


def torch_backend(name):
    """The backend of torch.distributed that serves `name`: "unisono" for "gloo" and "mpi". Of "cpu:gloo,cuda:nccl", each part."""
    if ":" not in name:
        return _TORCH_BACKENDS.get(name, name)
    parts = [part.split(":") for part in name.split(",")]
    return ",".join(f"{device}:{'unisono' if backend in (GLOO, MPI) else backend}" for device, backend in parts)


class _Engine:
    """The options that pg_options of init_process_group and new_group give to unisono.torch.create."""

    def __init__(self, engine):
        self.engine = engine


def is_mpi(backend):
    """Whether unisono's engine for MPI serves this backend."""
    return MPI in (part.split(":")[-1] for part in backend.split(","))


def _available():
    found = (UNISONO, GLOO)
    if dist.is_nccl_available():
        found += (NCCL,)
    core = getattr(unisono, "_core", None)  # a build for PyTorch alone does not tell which engines there are
    return found + ((MPI,) if core is not None and core.is_backend_available(MPI) else ())


# What initialize and spawn give to init_process_group beside these, they get as keyword arguments.
_OWN_ARGUMENTS = ("backend", "init_method", "world_size", "rank", "store")


def _gather_single(out, tensor, group):
    # PyTorch 2.13 has renamed it.
    getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(out, tensor, group=group)


def _form_default_group(backend, meeting, timeout, kwargs):
    if meeting.init_method not in (None, "", "env://"):
        kwargs |= {} if timeout is None else {"timeout": timeout}
        dist.init_process_group(backend, init_method=meeting.init_method, rank=meeting.rank, world_size=meeting.world_size, **kwargs)
        return
    url, make = meeting.init_method, None
    if not url:
        url = f"tcp://{meeting.host}:{meeting.port}"

        def make(patience):
            if not meeting.host:
                return dist.HashStore()
            # Not torch's own handler of tcp://, under which every rank is a client where torchrun serves a store.
            return tcp_store(meeting.host, meeting.port, meeting.rank == 0 and not meeting.store_is_served, patience)

    init_process_group(backend, url, meeting.rank, meeting.world_size, timeout, make, **kwargs)


class _NativeDistModel(ComputationModel):
    """The default group of torch.distributed: one that it made, or one that it found."""

    name = "native-dist"
    available_backends = _available()

    def __init__(self, backend, is_ours, place=None):
        self._backend, self._is_ours, self._place = backend, is_ours, place
        self._world = dist.group.WORLD
        self._rank, self._size = dist.get_rank(), dist.get_world_size()
        self._groups = {}  # those that were given as lists

    @classmethod
    def serves(cls, backend):
        """Whether `backend` is one of available_backends, or several of them as torch.distributed spells it ("cpu:unisono,cuda:nccl")."""
        if not isinstance(backend, str):
            return False
        return all(part.split(":")[-1] in cls.available_backends for part in (backend.split(",") if ":" in backend else [backend]))

    @classmethod
    def check_options(cls, operation, options, starts_processes=False):
        """Raises TypeError for a keyword argument that init_process_group does not have, before anything is started."""
        known = set(inspect.signature(dist.init_process_group).parameters).difference(_OWN_ARGUMENTS)
        for name in options:
            if name not in known:
                raise TypeError(f"{operation}() got an unexpected keyword argument '{name}'")

    @staticmethod
    def create_from_context():
        if not (dist.is_available() and dist.is_initialized()):
            return None
        horovod = sys.modules.get("unisono.horovod.torch._job")
        if horovod is not None and horovod.owns_default_group():
            return None  # the group is hvd.init's, and so is the model
        return _NativeDistModel(dist.get_backend(), is_ours=False)

    @staticmethod
    def create_from_backend(backend, init_method=None, world_size=None, rank=None, timeout=None, **kwargs):
        if not _NativeDistModel.serves(backend):
            raise ValueError(f"Backend should be one of '{_NativeDistModel.available_backends}'")
        meeting = None
        if is_mpi(backend) and not dist.is_initialized():
            meeting = _meeting.through_mpi(init_method, rank, world_size)
        return _NativeDistModel.join(backend, meeting or _meeting.meeting(init_method, rank, world_size), timeout, **kwargs)

    @staticmethod
    def join(backend, meeting, timeout=None, **kwargs):
        """Forms the default group where `meeting` says, with init_process_group's other arguments. A call that fails leaves nothing behind."""
        _NativeDistModel.check_options("initialize", kwargs)
        if dist.is_initialized():
            raise RuntimeError("Can not create new distributed process group if default one is already initialized")
        if NCCL in backend and not torch.cuda.is_available():
            raise RuntimeError("Nccl backend is required but no cuda capable devices")
        if timeout is not None:
            timeout = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
        if is_mpi(backend):
            kwargs.setdefault("pg_options", _Engine(MPI))
        _form_default_group(torch_backend(backend), meeting, timeout, kwargs)
        try:
            model = _NativeDistModel(backend, is_ours=True)
            model._find_places(meeting.local_rank, meeting.node_rank)
            if torch.cuda.is_available():
                # Before any call on GPUs. Slurm may give each process a GPU of its own, and then the local rank is no index.
                torch.cuda.set_device(model.get_local_rank() % torch.cuda.device_count())
        except BaseException:
            dist.destroy_process_group()
            raise
        return model

    def is_alive(self):
        """Whether torch.distributed still has the group that this model stands for."""
        return dist.is_initialized() and dist.group.WORLD is self._world

    def _find_places(self, local_rank, node_hint=None):
        entries = self._gather_values(_nodes.own_entry(local_rank, node_hint))
        self._place = _nodes.places(entries)[self._rank]
        return self._place

    def _known_place(self):
        # Of a group that the program has formed, at the first question that needs it: all ranks ask.
        return self._place or self._find_places(self._told_local_rank())

    def _told_local_rank(self):
        told = _nodes.launcher_local_rank()
        return ComputationModel._ext_local_rank if told is None else told

    def get_local_rank(self):
        if self._place is None:
            told = self._told_local_rank()
            if told is not None:
                return told
        return self._known_place().local_rank

    def get_rank(self):
        return self._rank

    def get_world_size(self):
        return self._size

    def get_nproc_per_node(self):
        return self._known_place().nproc_per_node

    def get_nnodes(self):
        return self._known_place().nnodes

    def get_node_rank(self):
        return self._known_place().node_rank

    def device(self):
        return self._current_gpu_or_cpu()

    def backend(self):
        return self._backend

    def finalize(self):
        """Destroys the group that initialize has formed. One that the program has formed is the program's."""
        self._groups.clear()
        if self._is_ours and self.is_alive():
            dist.destroy_process_group()

    @staticmethod
    def spawn(fn, args, kwargs_dict=None, nproc_per_node=1, **kwargs):
        from .._spawn import spawn

        return spawn(fn, args, kwargs_dict, nproc_per_node, **kwargs)

    def _setup_group(self, group):
        if group is None or isinstance(group, dist.ProcessGroup) or group is dist.GroupMember.NON_GROUP_MEMBER:
            return group
        if not is_list_of_ranks(group):
            raise ValueError(f"Argument group should be list of int or ProcessGroup, got {type(group)}, group={group}")
        key = tuple(sorted(group))
        if key not in self._groups:
            self._groups[key] = self.new_group(list(group))
        return self._groups[key]

    def _check_ranks(self, ranks):
        outside = [rank for rank in ranks if not 0 <= rank < self._size]
        if outside:
            raise ValueError(f"Argument ranks should have ranks between 0 and {self._size - 1}, but given {ranks}")

    def _do_new_group(self, ranks, **kwargs):
        self._check_ranks(ranks)
        if is_mpi(kwargs.get("backend") or self._backend):
            kwargs.setdefault("pg_options", _Engine(MPI))
        if kwargs.get("backend") is not None:
            kwargs["backend"] = torch_backend(kwargs["backend"])
        return dist.new_group(ranks=ranks, **kwargs)

    def _rank_not_in_group(self, group):
        if group is None:
            return False
        if is_list_of_ranks(group):
            return self._rank not in group
        return group is dist.GroupMember.NON_GROUP_MEMBER or dist.get_rank(group) < 0

    def _group_ranks(self, group):
        return dist.get_process_group_ranks(group) if group is not None else super()._group_ranks(group)

    def _carrier(self, group):
        kinds = {device.type for device in (group or self._world)._device_types}
        return torch.device("cpu") if "cpu" in kinds or not kinds else self.device()

    def _do_all_reduce(self, tensor, op, group=None):
        dist.all_reduce(tensor, getattr(dist.ReduceOp, op), group=group)

    def _do_all_gather(self, tensor, group=None):
        tensor = tensor.contiguous()
        out = tensor.new_empty((dist.get_world_size(group) * tensor.shape[0], *tensor.shape[1:]))
        _gather_single(out, tensor, group)
        return out

    def _do_broadcast(self, tensor, src, group=None):
        dist.broadcast(tensor, src, group=group)

    def barrier(self, group=None):
        group = self._setup_group(group)
        if self._rank_not_in_group(group):
            return
        if self._carrier(group).type == "cpu":
            # One of the host, which touches no GPU.
            (group or self._world)._get_backend(torch.device("cpu")).barrier().wait()
        else:
            dist.barrier(group)
