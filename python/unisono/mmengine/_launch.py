"""Joining a job that torchrun, `unisono run`, mpirun or Slurm started."""

import os
from datetime import timedelta

import torch
from torch import distributed, multiprocessing

from .. import _job_store
from .._slurm import expand_hostlist, warn_of_batch_script
from . import _ranks


def infer_launcher():
    """The launcher of this process, from its environment: "pytorch" (also `unisono run`), "slurm", "mpi", or "none"."""
    for variable, launcher in (("WORLD_SIZE", "pytorch"), ("SLURM_NTASKS", "slurm"), ("OMPI_COMM_WORLD_LOCAL_RANK", "mpi")):
        if variable in os.environ:
            return launcher
    return "none"


def init_dist(launcher, backend="nccl", init_backend="torch", **kwargs):
    """Joins the job and makes the default group of torch.distributed. All ranks call it.

        init_dist("pytorch")

    launcher: "pytorch" (`unisono run`, torchrun), "mpi" or "slurm". backend: "unisono", "gloo" and "mpi" are unisono; so is "nccl" without CUDA, and
    with CUDA tensors on the GPU travel by NCCL. init_backend: "torch". kwargs: those of `init_process_group`, with the timeout as a number of
    seconds, and with `port` for Slurm.

    ValueError: an unknown launcher or init_backend. TypeError: a timeout that is not a number. KeyError: a variable of the launcher is missing. The
    environment stays as it is.
    """
    if init_backend in ("deepspeed", "colossalai"):
        raise NotImplementedError(f'init_backend="{init_backend}" is not supported: initialize with "torch" before {init_backend}, which then uses the group')
    if init_backend != "torch":
        raise ValueError(f'supported "init_backend" is "torch", but got {init_backend}')
    if launcher not in _places:
        raise ValueError(f"Invalid launcher type: {launcher}")
    if kwargs.get("timeout") is not None:
        kwargs["timeout"] = _timeout(kwargs["timeout"])
    if multiprocessing.get_start_method(allow_none=True) is None:
        multiprocessing.set_start_method("spawn")
    port = kwargs.pop("port", None) if launcher == "slurm" else None
    local_rank, place = _places[launcher](port)
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
    from .. import torch as _  # noqa: F401  (makes the backend known)

    if kwargs.keys() & {"init_method", "rank", "world_size", "store"}:
        if "store" in kwargs:
            del place["init_method"]
        distributed.init_process_group(**{"backend": _backend(backend), **place, **kwargs})
    else:
        _job_store.init_process_group(_backend(backend), place["init_method"], place["rank"], place["world_size"], kwargs.pop("timeout", None), **kwargs)
    _ranks.form_local_group()


def _timeout(seconds):
    try:
        return timedelta(seconds=seconds)
    except TypeError as error:
        raise TypeError(
            f"Timeout for distributed training must be provided as timeout in seconds, but we've received the type {type(seconds)}: timeout=1800"
        ) from error


def _backend(name):
    name = name.lower()
    if name == "nccl" and torch.cuda.is_available() and distributed.is_nccl_available():
        return "cpu:unisono,cuda:nccl"
    return "unisono" if name in ("unisono", "gloo", "mpi", "nccl") else name


# Each returns the rank on this host, and what init_process_group is to be told.
def _by_pytorch(port):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return int(os.environ["LOCAL_RANK"]), {"rank": rank, "world_size": size, "init_method": "env://"}


def _by_mpi(port):
    rank, size, local_rank = (int(os.environ[f"OMPI_COMM_WORLD_{what}"]) for what in ("RANK", "SIZE", "LOCAL_RANK"))
    one_host = os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") == str(size)
    if "MASTER_ADDR" not in os.environ and not one_host:
        raise KeyError("The environment variable MASTER_ADDR is not set")
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    return local_rank, _place(rank, size, address, os.environ.get("MASTER_PORT", "29500"))


def _by_slurm(port):
    rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    warn_of_batch_script()
    first = first_host(os.environ["SLURM_NODELIST"])
    address = os.environ.get("MASTER_ADDR") or ("127.0.0.1" if os.environ.get("SLURM_NNODES") == "1" else first)
    return int(os.environ.get("SLURM_LOCALID", rank)), _place(rank, size, address, port or os.environ.get("MASTER_PORT") or _port_of_job())


_places = {"pytorch": _by_pytorch, "mpi": _by_mpi, "slurm": _by_slurm}


def _place(rank, size, address, port):
    return {"rank": rank, "world_size": size, "init_method": f"tcp://{address}:{port}"}


def _port_of_job():
    # Jobs that share a host get ports of their own. An array's job id may have a suffix: 12_3.
    job = "".join(c for c in os.environ.get("SLURM_JOB_ID", "0").split("_")[0] if c.isdigit())
    return 15000 + int(job or 0) % 10000


def first_host(nodelist):
    """The first host of a list as Slurm writes it: "node[003-005,7]-x,other" gives "node003-x"."""
    try:
        hosts = expand_hostlist(nodelist)
    except ValueError:
        hosts = []
    if not hosts:
        raise ValueError(f"no host can be read from SLURM_NODELIST={nodelist!r}")
    return hosts[0]
