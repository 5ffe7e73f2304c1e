"""The names of `virtex.utils.distributed`, over the backend "unisono" of torch.distributed.

    from unisono import virtex           # was: from virtex.utils import distributed
    virtex.launch(train, num_gpus_per_machine=4, args=(config,))

Needs PyTorch and unisono-torch. docs/coming-from/virtex.md lists what differs from the original.
"""

import torch
import torch.distributed as dist

from . import ignite as _idist

MIB = 1 << 20


def _call(local_rank, job_fn, args):
    return job_fn(*args)


def launch(job_fn, num_machines=1, num_gpus_per_machine=1, machine_rank=0, dist_url="auto", args=(), *, backend="unisono", timeout=None):
    """Runs job_fn(*args) in `num_gpus_per_machine` processes of each machine, with or without GPUs; get_local_rank() tells it which process it is.

    Returns what they returned on this machine, in rank order; the rank is machine_rank * num_gpus_per_machine + local rank. If there are GPUs, the
    one of the local rank is current before anything is sent. A single process is not started: job_fn runs in this one. dist_url: tcp://host:port of
    machine 0, or file:///path; one machine needs none. timeout: seconds, or a timedelta, of every call.

    Raises ValueError for arguments that make no job; ProcessRaisedException or ProcessExitedException of torch.multiprocessing for the rank that failed first.
    """
    if num_machines < 1 or num_gpus_per_machine < 1:
        raise ValueError(f"{num_machines} machines with {num_gpus_per_machine} processes each are none")
    if not 0 <= machine_rank < num_machines:
        raise ValueError(f"machine_rank should be between 0 and {num_machines - 1}, but given {machine_rank}")
    dist_url = None if dist_url in (None, "", "auto") else dist_url
    if num_machines > 1 and dist_url is None:
        raise ValueError(f"{num_machines} machines need a dist_url, at which they meet: tcp://host:port of machine 0")
    how = {} if timeout is None else {"timeout": timeout}
    if num_machines * num_gpus_per_machine > 1:
        where = {"nproc_per_node": num_gpus_per_machine, "nnodes": num_machines, "node_rank": machine_rank, "init_method": dist_url}
        return _idist.spawn(backend, _call, args=(job_fn, args), **where, **how)
    from .ignite._spawn import _initialize
    from .ignite._meeting import Meeting

    _initialize(backend, Meeting(0, 1, 0), how)
    try:
        result = job_fn(*args)
    except BaseException as error:
        _idist.utils._abandon(error)
        raise
    _idist.finalize()
    return [result]


def synchronize():
    """Returns when all processes have called it. It waits on the host, and for no GPU; alone it returns at once."""
    _idist.barrier()


def get_world_size():
    """The number of processes, 1 when alone."""
    return _idist.get_world_size()


def get_rank():
    """Rank of this process in the world, 0 when alone."""
    return _idist.get_rank()


def get_local_rank():
    """Rank of this process on its machine, 0 when alone; the original has no such function."""
    return _idist.get_local_rank()


def is_master_process():
    """Whether this is rank 0."""
    return get_rank() == 0


def _leaves(values, path=()):
    # (path, tensor), in the order of the paths, whatever order the keys were inserted in.
    if isinstance(values, torch.Tensor) and values.dtype != torch.bool:
        return [(path, values)]
    if isinstance(values, dict):
        return [leaf for key in sorted(values, key=lambda key: (type(key).__name__, repr(key))) for leaf in _leaves(values[key], (*path, key))]
    what = "a tensor of bool" if isinstance(values, torch.Tensor) else type(values).__name__
    raise TypeError(f"average_across_processes takes a tensor of numbers, or a dict of them, not {what}" + (f" at {path}" if path else ""))


def _check_same(paths):
    told = _idist.all_gather([repr(path) for path in paths])
    for rank, theirs in enumerate(told):
        if theirs != told[0]:
            differ = sorted(set(theirs) ^ set(told[0]))
            raise ValueError(f"average_across_processes: rank {rank} and rank 0 have different keys: {differ}")


def average_across_processes(t):
    """Replaces a tensor, or all tensors of a dict (which may hold dicts), by the average over all processes, in place. Returns None. All processes call it.

    Keys are paired by what they are, not by their order. Averages of integers are truncated toward zero. Raises ValueError on every rank where their keys
    differ, TypeError for other values, before anything is sent; alone it checks them, and changes nothing.
    """
    leaves = _leaves(t)
    if isinstance(t, dict):
        _check_same([path for path, _ in leaves])
    if get_world_size() == 1:
        return
    works = [dist.all_reduce(tensor.detach(), dist.ReduceOp.AVG, async_op=True) for _, tensor in leaves]
    for work in works:
        work.wait()


def gpu_mem_usage():
    """MiB that PyTorch has allocated on the current GPU now; 0 without one."""
    return torch.cuda.memory_allocated() // MIB if torch.cuda.is_available() else 0


def gpu_mem_peak():
    """The most MiB that PyTorch had allocated on the current GPU at any time, which the original calls gpu_mem_usage; 0 without one."""
    return torch.cuda.max_memory_allocated() // MIB if torch.cuda.is_available() else 0


__all__ = [name for name, value in globals().items() if not name.startswith("_") and getattr(value, "__module__", None) == __name__]
