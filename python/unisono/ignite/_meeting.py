"""The place where the ranks of a job meet, read from arguments and from the environment, which is never written."""

import os
import re
import socket
import stat
import warnings
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlsplit

from ._slurm import slurm_variables

_served = []  # stores, for the life of the process

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
DEFAULT_PORT = 15000


@dataclass(frozen=True)
class Meeting:
    """A rank of a job, and the place: a host with a port, a file, torch's own "env://", or nothing for a rank that is alone."""

    rank: int
    world_size: int
    local_rank: int | None = None
    node_rank: int | None = None
    host: str = ""
    port: int = 0
    init_method: str = ""
    store_is_served: bool = False  # somebody else serves the store at host:port, so that every rank is a client


def from_environment(environ=os.environ):
    """The Meeting that a launcher or Slurm names; a process without any of their variables is alone.

    Raises RuntimeError where only some of RANK, LOCAL_RANK and WORLD_SIZE are set, or Slurm's are incomplete or contradict them.
    """
    if "SLURM_JOB_ID" in environ:
        found = slurm_variables(environ)
        # Tasks of one node need no address that others reach.
        host = "127.0.0.1" if environ["SLURM_JOB_NUM_NODES"] == "1" and not environ.get("MASTER_ADDR") else found["MASTER_ADDR"]
        return Meeting(found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"], None, host, found["MASTER_PORT"])
    given = [name for name in VARIABLES if environ.get(name)]
    if not given:
        return Meeting(0, 1, 0)
    if len(given) < len(VARIABLES):
        raise RuntimeError(f"PyTorch distributed configuration should define env variables '{list(VARIABLES)}', and only {given} are set")
    rank, local_rank, world_size = (int(environ[name]) for name in VARIABLES)
    if environ.get("MASTER_ADDR") and environ.get("MASTER_PORT"):
        return Meeting(rank, world_size, local_rank, init_method="env://")
    if world_size == 1:
        return Meeting(0, 1, local_rank)
    return Meeting(rank, world_size, local_rank, None, environ.get("MASTER_ADDR") or "127.0.0.1", int(environ.get("MASTER_PORT") or DEFAULT_PORT))


def meeting(init_method=None, rank=None, world_size=None, environ=os.environ):
    """The Meeting for initialize's arguments. Raises ValueError where they contradict each other."""
    if init_method is None and (rank is not None or world_size is not None):
        raise ValueError("Arguments rank and world_size should be None if no init_method is provided")
    if (rank is None) != (world_size is None):
        raise ValueError(f"Both rank and world_size should be provided, but given {rank} and {world_size}")
    if rank is not None and "SLURM_JOB_ID" in environ:
        raise ValueError("Arguments rank and world_size should not be specified with SLURM")
    if rank is not None and not 0 <= rank < world_size:
        raise ValueError(f"rank should be between 0 and {world_size - 1}, but given {rank}")
    found = None if rank is not None else from_environment(environ)
    if init_method in (None, "env://"):
        return found or Meeting(rank, world_size, init_method="env://")
    return _elsewhere(init_method, found or Meeting(rank, world_size))


def through_mpi(init_method=None, rank=None, world_size=None):
    """The Meeting of a rank that mpirun or another launcher of MPI has started: MPI says which rank it is, and carries the address of rank 0's store. None
    for a process that was started otherwise. All ranks call it. The arguments have no effect, with a warning."""
    import unisono

    if unisono.infer_launcher() not in (unisono.Launcher.openmpi, unisono.Launcher.pmi):
        return None
    if init_method is not None or rank is not None or world_size is not None:
        warnings.warn("MPI says who and where the ranks are: init_method, rank and world_size have no effect with its launcher", stacklevel=4)
    if unisono.is_initialized():
        return _carried_by_mpi(unisono)
    with unisono.Context("mpi"):
        return _carried_by_mpi(unisono)


def _carried_by_mpi(unisono):
    from .._job_store import tcp_store

    address = None
    if unisono.rank() == 0 and unisono.world_size() > 1:
        host = "127.0.0.1" if unisono.nnodes() == 1 else socket.gethostname()
        _served.append(tcp_store(host, 0, True, timedelta(minutes=5)))
        address = [host, _served[-1].port]
    address = unisono.broadcast_object(address, 0)
    host, port = address or ("", 0)
    return Meeting(unisono.rank(), unisono.world_size(), unisono.local_rank(), None, host, port, store_is_served=True)


def _elsewhere(init_method, found):
    found = replace(found, host="", port=0, init_method="")
    if not init_method.startswith("tcp://"):
        return replace(found, init_method=init_method)
    host, port = split_address(init_method)
    return replace(found, host=host, port=port)


def split_address(url):
    """("host", port) of tcp://host:port."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if parts.scheme != "tcp" or not host or not port:
        raise ValueError(f"init_method {url!r} is not an address: it should be tcp://host:port")
    return host, port


def remove_stale_file(init_method):
    """Removes what an earlier job has left in the file of a file:// init_method. Called before the first rank starts.

    Raises ValueError if the file is not a store: it is somebody's data, and stays.
    """
    path = re.sub(r"^file://", "", init_method).split("?")[0]
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ValueError(f"the ranks cannot meet in {path}: {error.strerror}") from None
    try:
        is_store = stat.S_ISREG(os.fstat(descriptor).st_mode) and _is_store(os.read(descriptor, 16))
    finally:
        os.close(descriptor)
    if not is_store:
        raise ValueError(f"the ranks cannot meet in {path}: the file is none that an earlier job has left. Name a file that does not exist")
    os.remove(path)


def _is_store(begin):
    """Whether a file begins as that of a FileStore: empty, ours, or PyTorch's, which counts its users first."""
    return not begin or begin.startswith((b"UNISLOG", b"\x09\0\0\0refcount/"))
