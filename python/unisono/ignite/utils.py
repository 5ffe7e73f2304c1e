"""The functions of ignite.distributed.utils."""

import socket
import threading
from contextlib import contextmanager
from functools import wraps

import torch

from .. import _ending
from ._logging import rank_logger
from .comp_models import has_hvd_support, has_native_dist_support, has_xla_support, model_of, registered_computation_models, why_not
from .comp_models.base import ComputationModel, _SerialModel

_model = _SerialModel()
_is_pinned = False  # whether sync() has said that the model stays
_ranks_here = 0  # of spawn: several threads may be, whose models are alike
_counting = threading.Lock()


def _set_model(model, pinned=True):
    global _model, _is_pinned
    _model, _is_pinned = model, pinned


def _current():
    """The model of what there is now: one that the program has formed since the last call is found, one that is gone is left."""
    model = _model
    if isinstance(model, _SerialModel):
        return model if _is_pinned else _found(temporary=True)
    return model if model.is_alive() else _found(temporary=True)


def _found(temporary):
    kinds = (kind for kind in registered_computation_models if kind is not _SerialModel)
    model = next((model for kind in kinds if (model := kind.create_from_context()) is not None), None) or _SerialModel()
    _set_model(model, not temporary)
    return model


def sync(temporary=False):
    """Looks for what the program has formed itself: a group of torch.distributed, XLA's devices, Horovod's job; without any this process is alone.

    temporary: looks again at every later call if there is none; otherwise the model stays. All functions do this by themselves.
    """
    _found(temporary)


def device():
    """The device that this process computes on: the current GPU if there are any, otherwise the cpu; with "xla-tpu" XLA's."""
    return _current().device()


def backend():
    """The name that initialize or spawn was given ("gloo" runs on unisono), torch.distributed's name of a group that was found, None when alone."""
    return _current().backend()


def available_backends():
    """("unisono", "gloo", …, "horovod"): with "nccl" where this PyTorch has it, "mpi" where unisono's engine finds an MPI, "xla-tpu" where torch_xla is
    installed. "gloo" is unisono by the name that programs know."""
    return tuple(name for kind in registered_computation_models for name in kind.available_backends)


def model_name():
    """ "serial", "native-dist", "xla-dist" or "horovod-dist"."""
    return _current().name


def _of_the_model(name, doc):
    """A function that asks the model of what there is now."""

    def ask():
        return getattr(_current(), name)()

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = doc
    return ask


_ALL_ASK = "All ranks make the first such call in a group of the program's."
get_world_size = _of_the_model("get_world_size", "The number of processes, 1 when alone.")
get_rank = _of_the_model("get_rank", "Rank of this process in the world, 0 when alone.")
get_local_rank = _of_the_model(
    "get_local_rank",
    """Rank of this process among those of its node: from the launcher, or from set_local_rank, or counted among the processes of this host.

    Of a group that the program has formed without either of the first two, all ranks make the first such call.
    """,
)
get_nproc_per_node = _of_the_model("get_nproc_per_node", f"The number of processes of this node, even if nodes have different numbers. {_ALL_ASK}")
get_nnodes = _of_the_model("get_nnodes", f"The number of nodes. {_ALL_ASK}")
get_node_rank = _of_the_model("get_node_rank", f"Rank of this node. {_ALL_ASK}")


def hostname():
    """The name of this host."""
    return socket.gethostname()


def spawn(backend, fn, args, kwargs_dict=None, nproc_per_node=1, **kwargs):
    """Starts `nproc_per_node` processes that form a job, run fn(local_rank, *args, **kwargs_dict) and leave it. Returns what they returned, in rank order.

    fn: of a module, since it is pickled (not with start_method="fork"). Keyword arguments: nnodes=1, node_rank=0; master_addr and master_port, or init_method
    (env://, tcp://host:port, file:///path), for several nodes; timeout (a timedelta or seconds); join=True, daemon=False, start_method="spawn". A single
    node needs no port: it takes a free one, unless MASTER_PORT is set. With join=False it returns an object with `processes` and join().

    "mpi": the processes are one world of MPI, which `unisono run` starts; they are new interpreters, whatever start_method says. "horovod": keyword arguments
    of unisono.horovod.run (hosts, …) in place of those above. "xla-tpu": a process for each device, or a thread where one process has them all.

    Raises ProcessRaisedException or ProcessExitedException of torch.multiprocessing for the rank that failed first; the others have 15 s before they are
    ended. ValueError for an unknown backend, and for arguments that contradict each other.
    """
    return _assert_backend(backend).spawn(fn, args, kwargs_dict, nproc_per_node, backend=backend, **kwargs)


def all_reduce(tensor, op="SUM", group=None):
    """Reduces a tensor in place, and returns it; or a number, and returns the result with the number's type. All ranks of the group call it.

    op: "SUM", "PRODUCT", "MIN", "MAX", "AND", "OR", "XOR" (the last three of integers and bool), "AVG" (of integers: truncated), in any case. With "horovod"
    "ADASUM" in place of the bitwise ones.
    group: of new_group, or a list of ranks of the world, for which all ranks of the world make the first call: it forms a group, which is kept. A process
    outside of the group gets its input back.

    Raises TypeError for anything else, ValueError for another op or group, also when alone; a RuntimeError of the backend where the ranks' calls differ.
    """
    return _current().all_reduce(tensor, op, group=group)


def all_gather(tensor, group=None):
    """Gathers from all ranks of the group, in its order, on all of them.

    tensor: of shape (d0, d1, …), the same everywhere: a new tensor (n * d0, d1, …). Without dimensions: (n,), also when alone. Any other object that can be
    pickled: a list of n, numbers and texts with their exact types. group: as for all_reduce; a process outside gets its input back.
    """
    return _current().all_gather(tensor, group=group)


def all_gather_tensors_with_shapes(tensor, shapes, group=None):
    """A list of the tensors of all ranks of the group, which may have different shapes: `shapes` has that of each rank, the same list on all ranks.

    Raises ValueError where this rank's tensor has another shape than `shapes` says.
    """
    model = _current()
    handle = model._setup_group(group)
    if model._rank_not_in_group(handle):
        return [tensor]
    shapes = [tuple(shape) for shape in shapes]
    ranks = model._group_ranks(handle)
    if len(shapes) != len(ranks):
        raise ValueError(f"Argument shapes should have a shape for each of {len(ranks)} ranks, but given {len(shapes)}")
    mine = shapes[ranks.index(model.get_rank())]
    if mine != tuple(tensor.shape):
        raise ValueError(f"Argument shapes has {list(mine)} for this rank, but its tensor is {list(tensor.shape)}")
    sizes = [torch.Size(shape).numel() for shape in shapes]
    longest = max(sizes)
    if longest == 0:
        return [tensor.new_empty(shape) for shape in shapes]
    padded = tensor.new_zeros(longest)
    padded[: tensor.numel()] = tensor.detach().reshape(-1)
    rows = model.all_gather(padded, group=handle).reshape(len(shapes), longest)
    return [row[:size].reshape(shape).clone() for row, size, shape in zip(rows, sizes, shapes)]


def broadcast(tensor, src=0, safe_mode=False, group=None):
    """The value of rank `src` of the world: a tensor, filled in place on the others; a number, text, path or other object, with its type and all its bits.

    safe_mode: the others may give None or anything; kind, dtype and shape come from `src`. Without it all give the same kind, and tensors of the same
    shape and dtype. group: as for all_reduce.

    Raises ValueError for None on `src` (with safe_mode on all ranks), for None elsewhere without safe_mode, and for a src that is not a rank.
    """
    return _current().broadcast(tensor, src=src, safe_mode=safe_mode, group=group)


def barrier(group=None):
    """Returns when all ranks of the group have called it. It waits on the host, and for no GPU."""
    _current().barrier(group)


def new_group(ranks, **kwargs):
    """A group of these ranks of the world, for the argument `group`; in ascending order, as torch.distributed has them. All ranks of the world call it.

    kwargs: of torch.distributed.new_group (backend, timeout, pg_options). When alone: the list itself. Raises ValueError if it is not a list of
    different ranks.
    """
    return _current().new_group(ranks, **kwargs)


def set_local_rank(index):
    """Tells the local rank where the program forms the group itself, and no launcher says it."""
    ComputationModel._ext_local_rank = index


def _assert_backend(backend):
    kind = model_of(backend)
    if kind is None:
        raise ValueError(f"Backend should be one of '{available_backends()}'{why_not(backend)}")
    return kind


def initialize(backend, **kwargs):
    """Joins the job that a launcher (unisono run, torchrun, Slurm) or `init_method` names; a process that nobody launched is rank 0 of 1. All ranks call it.

    backend: one of available_backends(), or several ("cpu:unisono,cuda:nccl"). Keyword arguments: timeout (a timedelta or seconds), init_method (env://,
    tcp://host:port, file:///path), rank and world_size (together, and with init_method), and others of torch.distributed.init_process_group. If there
    are GPUs, that of the local rank becomes the current one. The environment stays as it is. "mpi" is started by mpirun as well. "horovod" calls hvd.init;
    keyword arguments: comm (a list of ranks that form a job of their own, in this order, or a communicator of mpi4py), process_sets.

    Raises ValueError for an unknown backend or contradicting arguments, RuntimeError if there is a group already, if the launcher's variables are
    incomplete, and for "nccl" without a GPU. A call that fails may be repeated.
    """
    _set_model(_assert_backend(backend).create_from_backend(backend, **kwargs))


def finalize():
    """Leaves the job that initialize joined. A group that the program has formed itself stays."""
    _model.finalize()
    _set_model(_SerialModel(), pinned=False)


def _abandon(error):
    # finalize for a scope that an exception leaves: the other ranks are told why.
    _model.abandon(error)
    _set_model(_SerialModel(), pinned=False)


def _run_in_job(backend, options, fn, args, kwargs):
    # A rank of spawn, which may be one of several threads: the model is kept here, and for the others until the last one has ended.
    global _ranks_here
    model = _assert_backend(backend).create_from_backend(backend, **options)
    with _counting:
        _ranks_here += 1
        _set_model(model)
    try:
        result = fn(model.get_local_rank(), *args, **kwargs)
    except BaseException as error:
        if _ending.describe(error):
            model.abandon(error)
            raise
        result = None  # it left by sys.exit(), which is no failure
    finally:
        with _counting:
            _ranks_here -= 1
            if _ranks_here == 0:
                _set_model(_SerialModel(), pinned=False)
    model.finalize()
    return result


def show_config():
    """Logs ten lines on rank 0: configuration, backend, device, hostname, world size, rank, local rank, processes per node, nodes, node rank."""
    logger = rank_logger(f"{__name__}.show_config", get_rank())
    told = {
        "distributed configuration": model_name(), "backend": backend(), "device": device().type, "hostname": hostname(), "world size": get_world_size(),
        "rank": get_rank(), "local rank": get_local_rank(), "num processes per_node": get_nproc_per_node(), "num nodes": get_nnodes(),
        "node rank": get_node_rank(),
    }  # fmt: skip
    for what, value in told.items():
        logger.info(f"{what}: {value}")


def _check_rank(rank, size):
    if not 0 <= rank < size:
        raise ValueError(f"rank should be between 0 and {size - 1}, but given {rank}")


def _tell(failure):
    """A barrier that carries what went wrong: raises on the ranks without an error of their own."""
    text = "" if failure is None else f"{type(failure).__name__}: {failure}"
    for rank, told in enumerate(_current()._gather_values(text)):
        if told and failure is None:
            raise RuntimeError(f"rank {rank} ended with {told}")


def one_rank_only(rank=0, with_barrier=False):
    """A decorator: the function runs on this rank of the world, and the others get None.

    with_barrier: all ranks wait until it has run. An exception then reaches them all: its rank raises it, the others a RuntimeError that names it.
    Raises ValueError at the call where `rank` is none of the world's.
    """

    def decorate(function):
        @wraps(function)
        def run(*args, **kwargs):
            _check_rank(rank, get_world_size())
            result = failure = None
            if get_rank() == rank:
                try:
                    result = function(*args, **kwargs)
                except BaseException as error:
                    if not with_barrier:
                        raise
                    failure = error
            if with_barrier:
                _tell(failure)
                if failure is not None:
                    raise failure
            return result

        return run

    return decorate


@contextmanager
def one_rank_first(rank=0, local=False):
    """A scope that this rank runs first, while the others wait before it. All ranks enter it.

    local: that rank of every node. If the first one raises, the others raise a RuntimeError that names its exception in place of running the scope.
    Raises ValueError where `rank` is none of the world's (local: of this node's).
    """
    _check_rank(rank, get_nproc_per_node() if local else get_world_size())
    is_first = rank == (get_local_rank() if local else get_rank())
    if not is_first:
        _tell(None)
    failure = None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        if is_first:
            _tell(failure)


def _rank_not_in_group(group):
    """Whether this process is outside of the group; None is the world."""
    return False if group is None else _current()._rank_not_in_group(group)


_own = {name for name, value in globals().items() if not name.startswith("_") and getattr(value, "__module__", None) == __name__}
__all__ = sorted(_own | {"has_xla_support", "has_native_dist_support", "has_hvd_support", "registered_computation_models"})
