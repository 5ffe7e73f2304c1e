"""How a process joins the job and leaves it, who it is, and its groups, which programs know by numbers."""

import os
import warnings

import unisono

from .. import _errors
from ._errors import NotInitialized, refuse, with_errors_of_2018


class dist_backend:
    """Numbers of the backends."""

    UNDEFINED = -1
    TCP = 0
    MPI = 1
    GLOO = 2
    NCCL = 3


class Backend(str):
    """The name of a backend in lower case: Backend("TCP") == "tcp". ValueError for anything else."""

    UNDEFINED = "undefined"
    TCP = "tcp"
    MPI = "mpi"
    GLOO = "gloo"
    NCCL = "nccl"

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError(f"Backend name must be a string, but got: {name}")
        if getattr(dist_backend, name.upper(), -1) == dist_backend.UNDEFINED:
            raise ValueError(f"Invalid backend: '{name}'")
        return super().__new__(cls, name.lower())


class group:
    """`group.WORLD` is the group of all processes."""

    WORLD = object()


class _NonMember:
    """Equal to the number of each group of which this process is not a member."""

    def __eq__(self, handle):
        return handle is self or (type(handle) is int and 0 <= handle < len(_State.groups) and _State.groups[handle] is None)

    __hash__ = object.__hash__


class GroupMember:
    """`GroupMember.WORLD` is group.WORLD. `GroupMember.NON_GROUP_MEMBER` is equal to what new_group returns to a process that is not a member."""

    WORLD = group.WORLD
    NON_GROUP_MEMBER = _NonMember()


_INITIALIZED_PG = 1
_INITIALIZED_MW = 2

# What initialize is asked for: the best engine for where the ranks are, and for tensors on GPUs NCCL where each rank has one.
_ENGINES = {dist_backend.TCP: "auto", dist_backend.GLOO: "auto", dist_backend.MPI: "mpi", dist_backend.NCCL: "nccl"}


class _State:
    mode = 0  # _INITIALIZED_PG or _INITIALIZED_MW
    backend = dist_backend.UNDEFINED
    controller = None  # in master-worker mode, on rank 0
    groups = []  # by number: the group, None for a process that is no member, or _destroyed; 0 is the world


_destroyed = object()


def is_available():
    """Whether torch.distributed can be used: always."""
    return True


def is_mpi_available():
    """Whether the backend "mpi" can be used here."""
    return unisono.is_backend_available("mpi")


def is_nccl_available():
    """Whether the backend "nccl" can be used here."""
    return unisono.is_backend_available("nccl")


def is_initialized():
    """Whether there is a process group. False in master-worker mode."""
    return _mode() == _INITIALIZED_PG


def _mode():
    # A program may leave by unisono's own name, and join another job by it; in a thread of run_threads there is another world.
    if not unisono.is_initialized():
        _forget()
    return _State.mode if _State.mode and unisono.world() == _State.groups[0] else 0


def _forget():
    _State.mode, _State.backend, _State.controller, _State.groups = 0, dist_backend.UNDEFINED, None, []


def _number_of(backend):
    try:
        return getattr(dist_backend, Backend(backend).upper())
    except ValueError:
        refuse("init_process_group", f"Invalid distributed backend name: {backend}", "it is tcp, mpi, gloo or nccl")


def _name_of(number):
    return next(name for name, value in vars(dist_backend).items() if value == number)


def options_of(operation, kwargs):
    """(world_size, rank, group_name) of an initializer's keywords, the numbers None where they are not given."""
    world_size, group_name, rank = kwargs.pop("world_size", -1), kwargs.pop("group_name", ""), kwargs.pop("rank", -1)
    if kwargs:
        raise AssertionError(f"{operation}: got unexpected keyword arguments: {','.join(kwargs)}")
    return *(None if number == -1 else number for number in (world_size, rank)), group_name


def require_uninitialized(operation):
    if _mode():
        refuse(operation, "trying to initialize torch.distributed twice!", "destroy_process_group() leaves the job", _errors.AlreadyInitialized)


def meeting(operation, number, init_method, world_size, rank, group_name):
    """initialize's arguments that say where the ranks meet, with what torch.distributed requires of them."""
    given = {"init_method": init_method, "world_size": world_size, "rank": rank, "group_name": group_name}
    if number == dist_backend.MPI:
        if not init_method.startswith("env://"):
            warnings.warn(f"{operation}: MPI says which rank a process is, and {init_method} is not used", stacklevel=4)
        given |= {"init_method": "env://", "group_name": ""}
        if unisono.infer_launcher() != unisono.Launcher.none:
            return given
        if world_size not in (None, 1) or rank not in (None, 0):
            refuse(operation, f"rank {rank} of {world_size} is given, and MPI has this process alone", "start the program with mpirun")
        return given | {"world_size": None, "rank": None}
    if init_method == "env://":
        if group_name:
            refuse(operation, "group_name is not supported in env:// init method")
        return _by_environment(operation, given)
    return given


# Whoever has these says everything, and unisono reads it.
_LAUNCHERS = ("UNISONO_LAUNCHER_FD", "TORCHELASTIC_USE_AGENT_STORE")


def _by_environment(operation, given):
    # Programs of 2018 set the variables themselves, after unisono has read its own.
    if any(os.environ.get(name) for name in _LAUNCHERS):
        return given
    numbers = {}
    for name in ("rank", "world_size"):
        told = os.environ.get(name.upper())
        if told and not told.isdecimal():
            refuse(operation, f"{name.upper()} is no number: {told}")
        if told and given[name] not in (None, int(told)):
            refuse(operation, f"{name} specified both as an environmental variable and to the initializer: {told} and {given[name]}")
        numbers[name] = int(told) if told else given[name]
    missing = next((name for name in numbers if numbers[name] is None), None)
    if missing and unisono.infer_launcher() != unisono.Launcher.none:  # mpirun, Slurm
        return given
    hint = "start the program with `unisono run`, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
    if missing:
        refuse(operation, f"{missing} is not set but it is required for env:// init method", hint)
    place = {name: os.environ.get(name) for name in ("MASTER_PORT", "MASTER_ADDR")}
    for name, value in place.items():
        if not value:
            refuse(operation, f"failed to read the {name} environmental variable; maybe you forgot to set it?", hint)
    host = f"[{place['MASTER_ADDR']}]" if ":" in place["MASTER_ADDR"] else place["MASTER_ADDR"]
    return {"init_method": f"tcp://{host}:{place['MASTER_PORT']}", **numbers}


@with_errors_of_2018
def init_process_group(backend, init_method="env://", timeout=None, **kwargs):
    """Joins the job, and returns when all of its processes have.

        dist.init_process_group("tcp", init_method="tcp://10.1.1.20:23456", rank=args.rank, world_size=4)

    backend: "tcp", "gloo", "mpi" (of processes that mpirun has started) or "nccl" (each with a GPU of its own), in any case.
    init_method: "env://" (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or what `unisono run`, torchrun, mpirun and Slurm say), "tcp://host:port" of rank 0,
        "tcp://address:port" of a multicast group, "file:///path" of a file that all processes reach.
    world_size, rank: needed if env:// does not say them. With multicast and a file ranks that are not given are chosen. group_name: tells jobs apart
    that share a multicast address or a file. timeout: seconds, or a timedelta, of this and of every later call; 30 minutes, of this call two.

    Raises RuntimeError of unisono's kinds, BackendUnavailable with "recompile" in its text, AssertionError for other keywords. A call that fails leaves
    nothing behind.
    """
    world_size, rank, group_name = options_of("init_process_group", kwargs)
    require_uninitialized("init_process_group")
    number = _number_of(backend)
    place = meeting("init_process_group", number, init_method, world_size, rank, group_name)
    join(number, _ENGINES[number], timeout=timeout, **place)


def join(number, engine, mode=_INITIALIZED_PG, **how):
    """unisono.initialize, and what this module knows of it when it has succeeded."""
    try:
        unisono.initialize(engine, **how)
    except _errors.BackendUnavailable as error:
        # Programs look for "recompile" in the text.
        hint = f"there is nothing to recompile: {error}"
        refuse("init_process_group", f"the {_name_of(number)} backend is not available", hint, _errors.BackendUnavailable)
    _State.mode, _State.backend, _State.groups = mode, number, [unisono.world()]


@with_errors_of_2018
def destroy_process_group(group=group.WORLD):
    """Leaves the job when what is under way is done, or drops one group. Without a job it does nothing. A program that ends without it does it then."""
    if group is not WORLD and group != 0:
        number = _checked(group, "destroy_process_group")
        if number is not None:
            _State.groups[number] = _destroyed
        return
    controller = _State.controller if _mode() else None
    _forget()
    if controller is not None:
        controller.close()
    unisono.finalize()


def require(operation, *modes):
    """Raises NotInitialized, which is an AssertionError, unless the mode is one of `modes`."""
    if _mode() in modes:
        return
    only = "collective only supported in process-group mode" if modes == (_INITIALIZED_PG,) else "the default process group is not initialized"
    refuse(operation, only, "init_process_group comes first", NotInitialized)


WORLD = group.WORLD


def _checked(handle, operation):
    require(operation, _INITIALIZED_PG)
    if handle is WORLD:
        return 0
    if handle is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(handle, int):
        refuse(operation, "group should be an int or one of the values from torch.distributed.group")
    if not 0 <= handle < len(_State.groups) or _State.groups[handle] is _destroyed:
        refuse(operation, f"group {handle} is none that new_group has returned, or it was destroyed")
    return handle


def group_of(handle, operation):
    """The unisono.ProcessGroup of a handle, None for a process that is not a member: its calls return at once."""
    number = _checked(handle, operation)
    return None if number is None else _State.groups[number]


@with_errors_of_2018
def get_rank(group=group.WORLD):
    """This process's rank: 0 to world_size - 1. Of another group the rank in it, -1 for a process that is not a member."""
    require("get_rank", _INITIALIZED_PG, _INITIALIZED_MW)
    if group is WORLD:
        return unisono.rank()
    members = group_of(group, "get_rank")
    return -1 if members is None else members.rank()


@with_errors_of_2018
def get_world_size(group=group.WORLD):
    """The number of processes of the job. Of another group that of its members, -1 for a process that is not a member."""
    require("get_world_size", _INITIALIZED_PG, _INITIALIZED_MW)
    if group is WORLD:
        return unisono.world_size()
    members = group_of(group, "get_world_size")
    return -1 if members is None else members.size()


@with_errors_of_2018
def _get_default_group():
    """The group of all processes: group.WORLD."""
    require("_get_default_group", _INITIALIZED_PG)
    return group.WORLD


@with_errors_of_2018
def get_backend(group=group.WORLD):
    """The name that init_process_group was given, in lower case."""
    if group_of(group, "get_backend") is None:
        refuse("get_backend", "Invalid process group specified", "this process is not a member of it", _errors.NotMember)
    return _name_of(_State.backend).lower()


@with_errors_of_2018
def new_group(ranks=None, timeout=None):
    """The number of a new group of these ranks, in this order; without ranks, of all. Every process calls it, in the same order; members wait for each other.

    timeout: seconds, or a timedelta, of the group's calls; that of the world if it is not given.
    """
    require("new_group", _INITIALIZED_PG)
    ranks = None if ranks is None else list(ranks)
    _State.groups.append(unisono.new_group(ranks, timeout=timeout))
    return len(_State.groups) - 1


@with_errors_of_2018
def _clear_group_cache(group=group.WORLD):
    """For NCCL alone, whose communicators here belong to the group and go with it: nothing is kept beside them."""
    group_of(group, "_clear_group_cache")
    if _State.backend != dist_backend.NCCL:
        refuse("_clear_group_cache", f"the {get_backend()} backend does not support clear group cache")


@with_errors_of_2018
def _register_stream(stream):
    """Takes a stream of CUDA. Calls follow the stream that is current when they are made, whether it was registered or not."""
    import torch

    if not _mode():
        refuse("_register_stream", "torch.distributed needs to be initialized first", kind=_errors.NotInitialized)
    if not isinstance(stream, torch.cuda.Stream):
        refuse("_register_stream", f"a torch.cuda.Stream is needed, not a {type(stream).__name__}")
