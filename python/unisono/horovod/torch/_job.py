"""Joining and leaving the job, and this process's place in it."""

import atexit
import os
import socket

import torch
from torch import distributed

from ..._slurm import warn_of_batch_script
from . import _process_sets
from ._requests import InvalidCall

_place = None  # (local rank, local size, cross rank, cross size, all hosts alike, (this host's number, number of hosts))
_owner = False  # whether init made torch.distributed's default group

# The variables of launchers: rank, size, rank on this host.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


def init(comm=None, process_sets=None):
    """Joins the job that `unisono run`, torchrun, mpirun or srun started; a process without a launcher is rank 0 of 1. All ranks call it.

    comm: None for all ranks, or a list of some, which form a job of their own, in this order; the others may form another one meanwhile, or none. Or a
    communicator of mpi4py, whose ranks do so. process_sets: ProcessSets to add, the same on all ranks; "dynamic" adds none and is accepted, as sets may always
    be added later.

    If torch.distributed is initialized already, its default group stays and goes on working, and all its ranks take part. A second
    call does nothing. In an elastic job (elastic.run) a process that replaces a lost one waits here until the others take it in.

    ValueError: a comm that names no ranks of the job, one of them twice, or not this one; some ranks of torch.distributed's group.
    """
    if is_initialized():
        return
    from ... import torch as _  # noqa: F401  (makes the backend known)
    from .elastic import _world

    if distributed.is_initialized():
        if _members(comm, distributed.get_rank(), distributed.get_world_size()) is not None:
            raise ValueError("torch.distributed is initialized with all ranks, and so is Horovod: use process_sets for calls among some of them")
        begin(None)
    elif _world.is_newcomer():
        _world.join()
        begin(_world.form_default_group)
    else:
        begin(lambda: _form_default_group(comm))
    for process_set in [] if process_sets is None or process_sets == "dynamic" else process_sets:
        _process_sets.add_process_set(process_set)
    atexit.register(shutdown)


def begin(form):
    """Makes what Horovod's calls need, after form() has made torch.distributed's default group; None: it is the program's."""
    global _place, _owner
    if form is not None:
        form()
    try:
        place = _exchange_hosts()
        _process_sets.form_global()
    except BaseException:
        if form is not None:
            distributed.destroy_process_group()
        raise
    _place, _owner = place, form is not None


def owns_default_group():
    """Whether torch.distributed's default group is one that `init` has made."""
    return _owner


def _form_default_group(comm):
    from ..._job_store import init_process_group

    rank, size, url = _launched()
    members = _members(comm, rank, size)
    if url is None:
        distributed.init_process_group("unisono", store=distributed.HashStore(), rank=0, world_size=1)
    else:
        init_process_group("unisono", url, rank, size, members=members)


def _launched():
    """(rank, size, where the ranks meet), as the launcher says; None for the last if there is none."""
    for rank, size, _ in _LAUNCHERS:
        if rank not in os.environ or size not in os.environ:
            continue
        if rank == "SLURM_PROCID":
            warn_of_batch_script(stacklevel=5)
        url = "env://"  # torch.distributed reads these variables itself
        if rank != "RANK":
            url = f"tcp://{os.environ.get('MASTER_ADDR', '127.0.0.1')}:{os.environ.get('MASTER_PORT', '29500')}"
        return int(os.environ[rank]), int(os.environ[size]), url
    return 0, 1, None


def _members(comm, rank, size):
    """The ranks of the job that `comm` names, in its order; None where these are all, in theirs."""
    if hasattr(comm, "allgather"):  # a communicator of mpi4py
        comm = comm.allgather(rank)
    members = [] if comm is None else list(comm) if hasattr(comm, "__iter__") else [comm]
    if any(not isinstance(each, int) or not 0 <= each < size for each in members) or len(set(members)) < len(members):
        raise ValueError(f"comm is a list of different ranks from 0 to {size - 1}, or a communicator of mpi4py, and not {comm!r}")
    if members and rank not in members:
        raise ValueError(f"rank {rank} calls init with comm={members}, to which it does not belong")
    return None if not members or members == list(range(size)) else members


def _exchange_hosts():
    # The node's number counts as well, so that a launcher may place several nodes on one host.
    local = next((int(os.environ[name]) for _, _, name in _LAUNCHERS if name in os.environ), None)
    every = [None] * distributed.get_world_size()
    distributed.all_gather_object(every, (socket.gethostname(), os.environ.get("GROUP_RANK"), local))
    hosts = {}
    for rank, (host, node, local) in enumerate(every):
        hosts.setdefault((host, node), []).append((rank if local is None else local, rank))
    ranks_of = [[rank for _, rank in sorted(members)] for members in hosts.values()]
    rank = distributed.get_rank()
    own = next(ranks for ranks in ranks_of if rank in ranks)
    local = own.index(rank)
    across = [ranks for ranks in ranks_of if local < len(ranks)]
    return local, len(own), across.index(own), len(across), len({len(ranks) for ranks in ranks_of}) == 1, (ranks_of.index(own), len(ranks_of))


def shutdown():
    """Leaves the job. Calls that are not done fail on this rank, and later ones of other ranks on them. `init` may be called again. It also runs at exit."""
    from .elastic import _world

    leave()
    _world.leave()


def leave():
    """The work of shutdown, except leaving the members of an elastic job."""
    global _place, _owner
    if not is_initialized():
        return
    from ._timeline import stop_timeline

    stop_timeline()
    owner, _place, _owner = _owner, None, False
    if not distributed.is_initialized():
        return  # the program has destroyed all groups
    _process_sets.end_all()
    if owner:
        distributed.destroy_process_group()


def is_initialized():
    """Whether `init` was called, and no `shutdown` since."""
    return _place is not None


def _initialized():
    if _place is None:
        raise InvalidCall("Horovod has not been initialized; use hvd.init().")
    return _place


def rank():
    """This process's rank in the job. ValueError before init, as in the following."""
    _initialized()
    return _process_sets.global_process_set._worker.rank


def size():
    """The number of ranks in the job."""
    _initialized()
    return _process_sets.global_process_set._worker.size


def local_rank():
    """This process's rank among those of its host."""
    return _initialized()[0]


def local_size():
    """The number of ranks on this host."""
    return _initialized()[1]


def cross_rank():
    """The number of this host among the hosts that have a rank with this local rank."""
    return _initialized()[2]


def cross_size():
    """The number of hosts that have a rank with this local rank."""
    return _initialized()[3]


def is_homogeneous():
    """Whether all hosts have equally many ranks."""
    return _initialized()[4]


def hosts():
    """(the number of this host, how many there are)"""
    return _initialized()[5]


def mpi_threads_supported():
    """False: MPI is not used. ValueError before init."""
    _initialized()
    return False


def _false(name, reason):
    """A function that answers that something is not used."""

    def answer():
        return False

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"False: {reason}."
    return answer


mpi_enabled, mpi_built = (_false(name, "MPI is not used") for name in ("mpi_enabled", "mpi_built"))
gloo_enabled, gloo_built = (_false(name, "unisono is in Gloo's place") for name in ("gloo_enabled", "gloo_built"))
ddl_built, ccl_built = _false("ddl_built", "IBM's DDL is not used"), _false("ccl_built", "Intel's oneCCL is not used")


def nccl_built():
    """The version of NCCL as a number if PyTorch has CUDA and NCCL, as 22005 for 2.20.5; otherwise 0."""
    if not (torch.cuda.is_available() and distributed.is_nccl_available()):
        return 0
    major, minor, patch = (*torch.cuda.nccl.version(), 0, 0)[:3]
    return major * 10000 + minor * 100 + patch


def cuda_built():
    """Whether this PyTorch was built with CUDA."""
    return torch.version.cuda is not None


def rocm_built():
    """Whether this PyTorch was built with ROCm."""
    return torch.version.hip is not None
