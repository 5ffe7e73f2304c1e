"""The store of `unisono run`, where the ranks that it started form torch.distributed's default group.

PyTorch's own store listens on all addresses of rank 0's host and asks nobody who he is. This one is reached by the ranks of the job alone.
"""

import functools
import inspect
import os
from datetime import timedelta

_kept = {}  # by process and place: the store, and how many default groups were formed there


def find(rank, world_size, timeout):
    """The store, under a prefix that is new for each default group. None for a process that `unisono run` has not started as this rank of that many.

    All ranks call it equally often. timeout: a timedelta, for an answer of the launcher, and then of the store's calls.
    """
    from torch import distributed

    kept = _kept_store(rank, world_size, timeout)
    if kept is None:
        return None
    kept[1] += 1
    store = distributed.PrefixStore(f"default group {kept[1]}", kept[0])
    store.set_timeout(timeout)
    return store


def whole(rank, world_size, timeout):
    """The store without a prefix of its own, however often the ranks call it; None as for `find`."""
    kept = _kept_store(rank, world_size, timeout)
    return kept and kept[0]


def _kept_store(rank, world_size, timeout):
    from torch import distributed

    launched = os.environ.get("UNISONO_LAUNCHER_FD") and (os.environ.get("RANK"), os.environ.get("WORLD_SIZE")) == (str(rank), str(world_size))
    if not launched or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    # A program may form worlds of its own among some of the ranks, at places of its own.
    place = os.getpid(), os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if place not in _kept:
        # Before PyTorch 2.9 no store that is written in C++ reaches Python.
        make = _of_launcher if hasattr(distributed.ProcessGroup, "get_group_store") else _on_loopback
        store = make(*place[1:], int(rank), int(world_size), timeout)
        if store is None:
            return None
        _kept[place] = [store, 0]
    return _kept[place]


def teach(distributed, is_ours) -> None:
    """Makes init_process_group take this store by itself for env://, where is_ours(backend)."""
    c10d = distributed.distributed_c10d
    original = c10d.init_process_group
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init_process_group(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        elsewhere = given.get("store") is not None or given.get("init_method") not in (None, "env://")
        timeout = given.get("timeout") or c10d.default_pg_timeout
        if elsewhere or distributed.is_initialized() or not is_ours(given.get("backend")) or not isinstance(timeout, timedelta):
            return original(*args, **kwargs)
        rank, world_size = (given[name] if given.get(name, -1) != -1 else os.environ.get(name.upper()) for name in ("rank", "world_size"))
        found = find(rank, world_size, timeout)
        if found is None:
            return original(*args, **kwargs)
        given.pop("init_method", None)
        return original(**{**given, "store": found, "rank": int(rank), "world_size": int(world_size)})

    c10d.init_process_group = distributed.init_process_group = init_process_group


def _of_launcher(host, port, rank, world_size, timeout):
    import torch

    from . import _extension

    _extension.load()
    holder = torch.ops.unisono.launcher_store(f"torch/{host}:{port}", rank, world_size, timeout // timedelta(milliseconds=1))
    return None if holder is None else torch.distributed.ProcessGroup.unbox(holder).get_group_store()


def _on_loopback(host, port, rank, world_size, timeout):
    from .._job_store import is_loopback, tcp_store

    return tcp_store(host, int(port), rank == 0, timeout) if host and port and is_loopback(host) else None
