"""Processes that a program starts itself, each a rank of a new job; their results, and which of them failed first."""

import multiprocessing
import os
import pickle
import signal
import traceback
import warnings
from dataclasses import dataclass, replace
from datetime import timedelta

import torch.distributed as dist
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from .. import _children
from .._job_store import tcp_store
from . import _meeting

DEFAULT_ADDRESS, DEFAULT_PORT = "127.0.0.1", 2222
_running = []  # jobs that nobody joins may be dropped by the program, and their store may not


@dataclass(frozen=True)
class _Job:
    backend: str
    fn: object
    args: tuple
    kwargs: dict
    meeting: _meeting.Meeting  # of local rank 0
    nproc_per_node: int
    options: dict  # of init_process_group


def _initialize(backend, meeting, options):
    from . import utils
    from .comp_models import model_of

    model = model_of(backend).join(backend, meeting, **options)
    utils._set_model(model)
    return model


def _child(connection, local_rank, job):
    meeting = replace(job.meeting, rank=job.meeting.rank + local_rank, local_rank=local_rank)
    host, port = (meeting.host, meeting.port) if meeting.host else (None, None)
    variables = {"RANK": meeting.rank, "LOCAL_RANK": local_rank, "WORLD_SIZE": meeting.world_size, "LOCAL_WORLD_SIZE": job.nproc_per_node}
    variables |= {"GROUP_RANK": meeting.node_rank} | ({"MASTER_ADDR": host, "MASTER_PORT": port} if host else {})
    os.environ.update({name: str(value) for name, value in variables.items()})  # of this process, which has just been started
    model = None
    try:
        model = _initialize(job.backend, meeting, job.options)
        result = job.fn(local_rank, *job.args, **job.kwargs)
        from . import utils

        utils.finalize()
    except BaseException as error:
        if isinstance(error, SystemExit) and not error.code:
            raise
        text = traceback.format_exc()
        if model is not None:
            model.abandon(error)
        _answer(connection, (False, text, isinstance(error, (dist.DistBackendError, ConnectionError))))
        raise SystemExit(1) from None
    _answer(connection, (True, result, False))


def _answer(connection, answer):
    try:
        data = pickle.dumps(answer, protocol=5)
    except Exception as error:
        warnings.warn(f"spawn: what the function returned cannot be sent to the process that started this one, which gets None: {error}", stacklevel=2)
        data = pickle.dumps((True, None, False))
    connection.send_bytes(data)
    connection.close()


class _Child(_children.Child):
    def __init__(self, context, local_rank, job, daemon):
        self.local_rank, rank = local_rank, job.meeting.rank + local_rank
        super().__init__(context, rank, _child, (local_rank, job), f"rank {rank}", daemon=daemon)

    @property
    def failed(self):
        # A process that left by sys.exit() has no result, and has not failed.
        return not self.answer[0] if self.answer else self.process.exitcode not in (None, 0)

    @property
    def is_consequence(self):
        # A rank that only lost another one is not the first cause.
        return self.ended_by_us or (self.answer is not None and self.answer[2])

    def failure(self):
        pid, code = self.process.pid, self.process.exitcode
        if self.answer is not None:
            text = f"\n\n-- Process {self.local_rank} (rank {self.rank}) terminated with the following error:\n{self.answer[1]}"
            return ProcessRaisedException(text, self.local_rank, pid)
        name = signal.Signals(-code).name if code < 0 else None
        how = f"signal {name}" if name else f"exit code {code}"
        return ProcessExitedException(
            f"process {self.local_rank} (rank {self.rank}) terminated with {how}", self.local_rank, pid, exit_code=code, signal_name=name
        )


class SpawnedProcesses:
    """The processes of a spawn that does not join them: `processes`, `pids()`, and join(), which returns their results."""

    def __init__(self, children, store):
        self._children, self._store = children, store
        self.processes = [child.process for child in children]

    def pids(self):
        return [process.pid for process in self.processes]

    def join(self):
        """Waits for all and returns what their functions returned, in rank order.

        Raises ProcessRaisedException or ProcessExitedException of torch.multiprocessing for the rank that failed first; the others have 15 s to end.
        """
        failed = _children.watch(self._children)
        if self in _running:
            _running.remove(self)
        if failed:
            raise failed[0].failure()
        return [child.answer[1] if child.answer else None for child in self._children]


def _meet(backend, world_size, first, nnodes, node_rank, master_addr, master_port, init_method):
    """(Meeting of this node's first rank, the store that this process serves or None)."""
    start = _meeting.Meeting(first, world_size, node_rank=node_rank)
    if init_method not in (None, "env://"):
        if master_addr is not None:
            raise ValueError("master_addr should be None if init_method is provided other then 'env://'")
        if master_port is not None:
            raise ValueError("master_port should be None if init_method is provided other then 'env://'")
        if init_method.startswith("tcp://"):
            host, port = _meeting.split_address(init_method)
            return replace(start, host=host, port=port), None
        if nnodes == 1 and init_method.startswith("file://"):
            _meeting.remove_stale_file(init_method)
        return replace(start, init_method=init_method), None
    host = master_addr or os.environ.get("MASTER_ADDR")
    port = master_port or os.environ.get("MASTER_PORT")
    if nnodes == 1 and port is None:
        # The processes meet here: a port that is free, whatever other jobs there are.
        store = tcp_store(host or DEFAULT_ADDRESS, 0, True, timedelta(minutes=5))
        return replace(start, host=host or DEFAULT_ADDRESS, port=store.port, store_is_served=True), store
    return replace(start, host=host or DEFAULT_ADDRESS, port=int(port or DEFAULT_PORT)), None


def _address(nnodes, master_addr, master_port, init_method):
    """(host, port) where the launchers of an MPI world of several nodes meet; that of one node meets nobody."""
    if nnodes == 1:
        return "", 0
    meeting, _ = _meet("mpi", nnodes, 0, nnodes, 0, master_addr, master_port, init_method)
    if not meeting.host:
        raise ValueError(f"an MPI world of {nnodes} nodes needs master_addr and master_port, or tcp://host:port, and not {init_method}")
    return meeting.host, meeting.port


def check_nodes(nproc_per_node, nnodes, node_rank):
    """Raises ValueError if there is no such node."""
    for name, value in (("nproc_per_node", nproc_per_node), ("nnodes", nnodes)):
        if value < 1:
            raise ValueError(f"Argument {name} should positive, but given {value}")
    if node_rank is None and nnodes > 1:
        raise ValueError("If number of nodes larger than one, arguments node_rank should be given")
    if not 0 <= (node_rank or 0) < nnodes:
        raise ValueError(f"Argument node_rank should be between 0 and {nnodes - 1}, but given {node_rank}")


def spawn(
    fn,
    args,
    kwargs_dict=None,
    nproc_per_node=1,
    nnodes=1,
    node_rank=0,
    master_addr=None,
    master_port=None,
    backend="unisono",
    init_method=None,
    join=True,
    daemon=False,
    start_method="spawn",
    **options,
):
    """utils.spawn for torch.distributed's backends."""
    from .comp_models.native import _NativeDistModel, is_mpi

    _NativeDistModel.check_options("spawn", options)
    check_nodes(nproc_per_node, nnodes, node_rank)
    world_size, first = nnodes * nproc_per_node, node_rank * nproc_per_node
    if is_mpi(backend):
        from .._function_job import nodes_of
        from . import _mpi

        where = nodes_of(nnodes, node_rank, *_address(nnodes, master_addr, master_port, init_method))
        return _mpi.spawn(backend, fn, tuple(args), dict(kwargs_dict or {}), range(first, first + nproc_per_node), where, options, join)
    if start_method != "fork":
        _children.check("spawn", fn, args, kwargs_dict)
    meeting, store = _meet(backend, world_size, first, nnodes, node_rank, master_addr, master_port, init_method)
    job = _Job(backend, fn, tuple(args), dict(kwargs_dict or {}), meeting, nproc_per_node, options)
    context = multiprocessing.get_context(start_method)
    children = []
    try:
        for local_rank in range(nproc_per_node):
            children.append(_Child(context, local_rank, job, daemon))
        running = SpawnedProcesses(children, store)
        if not join:
            _running.append(running)
            return running
        return running.join()
    except BaseException:  # where the caller is interrupted, or a process could not be started
        _children.kill(children)
        raise
