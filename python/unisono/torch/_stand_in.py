"""Unisono in gloo's place (UNISONO_STAND_IN=gloo): groups that name gloo are unisono's on the cpu, and still say gloo.

torch.distributed makes every group in one function, which asks a BackendConfig for the backend of each type of device and registers what it makes with
the group. While that function runs, the answer for the cpu is our backend instead of gloo, and ours is registered under a type of its own. Whatever asks
at another time gets "gloo" as before.

The type of a group's backend cannot be GLOO, because PyTorch's C++ code takes a backend of that type for its own class. So the names that a group tells
are corrected here as well.
"""

import functools
import inspect
import threading

PLUGIN = "unisono_for_gloo"  # the name under which torch.distributed knows the creator
GLOO = "gloo"
VARIABLE = "UNISONO_STAND_IN"

_making = threading.local()  # .of: what this thread's call of _new_process_group_helper replaces; None outside of a call


class _Group:
    """A group that is being made."""

    def __init__(self):
        self.backends = {}  # type of device: name of the backend that torch.distributed would take; empty where the cpu's is not gloo
        self.options = None  # what our creator was given

    def others(self):
        """The types of devices beside the cpu that gloo would serve."""
        return [device for device, backend in self.backends.items() if backend == GLOO and device != "cpu"]

    def backend_type(self, c10d):
        """A type that no other backend of the group has: a group takes two backends of one type for one."""
        types = c10d.ProcessGroup.BackendType
        known = c10d.Backend.backend_type_map
        taken = [known.get(backend, types.CUSTOM) for backend in self.backends.values() if backend != GLOO]
        return next(free for free in (types.CUSTOM, types.UCC, types.MPI) if free not in taken)


def install(value, distributed, create) -> None:
    """Takes gloo's place in torch.distributed, once. `value` is the variable's, `create` makes our backend.

    Raises ValueError for a value that is not "gloo", RuntimeError where this PyTorch is made in another way than the ones known here.
    """
    if value != GLOO:
        raise ValueError(f'{VARIABLE}={value} is unknown; it is "gloo", in whose place unisono can stand, or unset')
    c10d = distributed.distributed_c10d
    if PLUGIN.upper() in c10d.Backend._plugins:
        return
    _require(c10d)

    def create_for_gloo(options, backend_options=None):
        if getattr(_making, "of", None) is not None:
            _making.of.options = options
        return create(options, backend_options, name=GLOO)

    c10d.Backend.register_backend(PLUGIN, create_for_gloo, extended_api=True, devices=["cpu", "cuda"])
    _wrap_making(c10d)
    _wrap_names(c10d)
    _wrap_timeout(c10d)
    _wrap_dist2(c10d, create)


def _require(c10d) -> None:
    # Everything that is not documented and that this module uses. monitored_barrier and _set_pg_timeout go on without their additions.
    needed = {
        c10d: ("_new_process_group_helper", "_DistributedBackendOptions", "PrefixStore"),
        c10d.Backend: ("register_backend", "backend_type_map", "_plugins"),
        c10d.BackendConfig: ("get_device_backend_map",),
        c10d.ProcessGroup: ("_register_backend", "_set_default_backend", "_get_backend", "_get_backend_name", "_device_types", "name"),
    }
    missing = [f"{owner.__name__.rpartition('.')[2]}.{name}" for owner, names in needed.items() for name in names if not hasattr(owner, name)]
    if missing:
        _fail(f"has no {', '.join(missing)}")
    if "get_device_backend_map" not in inspect.getsource(c10d._new_process_group_helper):
        _fail("does not ask a BackendConfig which backend a new group gets")


def _fail(reason):
    import torch

    raise RuntimeError(f"{VARIABLE}=gloo: PyTorch {torch.__version__} {reason}, so unisono cannot stand in gloo's place there; "
                       'unset the variable, and name the backend "unisono" where the program names gloo')


def _wrap_making(c10d) -> None:
    make, answer, register = c10d._new_process_group_helper, c10d.BackendConfig.get_device_backend_map, c10d.ProcessGroup._register_backend

    @functools.wraps(answer)
    def get_device_backend_map(self):
        backends = answer(self)
        making = getattr(_making, "of", None)
        if making is None or backends.get("cpu") != GLOO:
            return backends
        if getattr(c10d, "_use_torchcomms_enabled", bool)():
            _fail("makes its groups of torchcomms here")
        making.backends = dict(backends)
        return {device: PLUGIN if backend == GLOO else backend for device, backend in backends.items()}

    @functools.wraps(register)
    def _register_backend(self, device, backend_type, backend=None):
        making = getattr(_making, "of", None)
        if making is not None and making.backends.get(device.type) == GLOO:
            backend_type = making.backend_type(c10d)
        return register(self, device, backend_type, backend)

    @functools.wraps(make)
    def _new_process_group_helper(*args, **kwargs):
        before, making = getattr(_making, "of", None), _Group()
        _making.of = making
        try:
            result = make(*args, **kwargs)
        finally:
            _making.of = before
        if isinstance(result[0], c10d.ProcessGroup):
            _complete(c10d, result[0], making)
        return result

    c10d.BackendConfig.get_device_backend_map = get_device_backend_map
    c10d.ProcessGroup._register_backend = _register_backend
    c10d._new_process_group_helper = _new_process_group_helper


def _complete(c10d, group, making) -> None:
    """The rest of the work for a group that was just made: collective over its members."""
    import torch

    cpu = _cpu()
    if cpu in group._device_types and isinstance(group._get_backend(cpu), getattr(c10d, "ProcessGroupGloo", ())):
        _fail("has made a group of gloo in a way of its own")
    if not making.backends:
        return
    if _name_in_torch(group) in (GLOO, "undefined"):
        group._set_default_backend(making.backend_type(c10d))
    others = making.others()
    if others and _any_rank_has(c10d, others, group._get_backend(cpu)):
        # Gloo itself for these devices, on all ranks or on none.
        options = making.options
        gloo = c10d.ProcessGroupGloo(c10d.PrefixStore("gloo/", options.store), options.group_rank, options.group_size, timeout=options.timeout)
        gloo._set_sequence_number_for_group()
        for device in others:
            group._register_backend(torch.device(device), c10d.ProcessGroup.BackendType.GLOO, gloo)


def _any_rank_has(c10d, devices, ours) -> bool:
    import torch

    def count(device):
        try:
            return torch.get_device_module(device).device_count()
        except (AttributeError, RuntimeError):
            return 0

    mine = torch.tensor([max(map(count, devices))])
    options = c10d.AllreduceOptions()
    options.reduceOp = c10d.ReduceOp.MAX
    ours.allreduce([mine], options).wait()
    return mine.item() > 0


def _wrap_names(c10d) -> None:
    global _name_in_torch
    _name_in_torch = c10d.ProcessGroup._get_backend_name

    def corrected(original):
        @functools.wraps(original)
        def name(self):
            told = original(self)
            return GLOO if told in ("custom", "ucc", "mpi") and _is_stand_in(self) else told

        return name

    for name in ("name", "_get_backend_name"):
        setattr(c10d.ProcessGroup, name, corrected(getattr(c10d.ProcessGroup, name)))

    # Torch counts the calls of its own types of backends alone.
    count = getattr(c10d.ProcessGroup, "_get_sequence_number_for_group", None)
    if count is None:
        return

    @functools.wraps(count)
    def _get_sequence_number_for_group(self):
        return self._get_backend(_cpu())._get_sequence_number_for_group() if _is_stand_in(self) else count(self)

    c10d.ProcessGroup._get_sequence_number_for_group = _get_sequence_number_for_group


def _is_stand_in(group) -> bool:
    from . import is_unisono

    return is_unisono(group) and group._get_backend(_cpu()).name() == GLOO


def _cpu():
    import torch

    return torch.device("cpu")


def _wrap_timeout(c10d) -> None:
    # It knows gloo by its class, and does nothing but warn for other backends.
    original = getattr(c10d, "_set_pg_timeout", None)
    if original is None:
        return

    @functools.wraps(original)
    def _set_pg_timeout(timeout, group=None):
        group = c10d._get_default_group() if group is None else group
        if not isinstance(group, c10d.ProcessGroup) or not _is_stand_in(group):
            return original(timeout, group)
        for device in group._device_types:
            backend = group._get_backend(device)
            (getattr(backend, "_set_default_timeout", None) or backend.set_timeout)(timeout)

    c10d._set_pg_timeout = _set_pg_timeout


def _wrap_dist2(c10d, create) -> None:
    # The experimental interface: a table of functions, each of which makes a group of one backend.
    try:
        from torch.distributed import _dist2

        factories = _dist2._BACKENDS
        factories[GLOO]
    except (ImportError, AttributeError, KeyError):
        return
    original = factories[GLOO]

    @functools.wraps(original)
    def gloo_factory(store, rank, world_size, timeout, device, **kwargs):
        import torch

        if kwargs or torch.device(device).type != "cpu":
            return original(store, rank, world_size, timeout, device, **kwargs)
        options = c10d._DistributedBackendOptions()
        options.store, options.group_rank, options.group_size, options.timeout = store, rank, world_size, timeout
        group = c10d.ProcessGroup(store, rank, world_size)
        group._set_default_backend(c10d.ProcessGroup.BackendType.CUSTOM)
        group._register_backend(_cpu(), c10d.ProcessGroup.BackendType.CUSTOM, create(options, name=GLOO))
        return group

    factories[GLOO] = gloo_factory
