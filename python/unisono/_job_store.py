"""The store in which the ranks of a launched job meet, also when they form torch.distributed's default group again."""

import os
from datetime import timedelta

from torch import distributed

_kept = {}  # by place: the store, and how many groups were formed there


def init_process_group(backend, url, rank, world_size, timeout=None, make=None, **how):
    """torch.distributed.init_process_group at `url`, whose store stays for the life of this process.

    The server of a store that ended with its group would still be there for a rank that begins again before rank 0 has left, and end under it. `make`: a
    function that makes the store, where torch's own handler of `url` is not wanted. timeout: a timedelta.
    """
    # Another process, by fork, has no part in its parent's connections.
    place = (os.getpid(), url, rank, world_size, *(os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")))
    if place not in _kept:
        patience = timeout or timedelta(minutes=5)
        _kept[place] = [make(patience) if make else next(distributed.rendezvous(url, rank, world_size, timeout=patience))[0], 0]
    store, times = _kept[place]
    store.set_timeout(timeout or distributed.distributed_c10d.default_pg_timeout)
    if timeout is not None:
        how["timeout"] = timeout
    prefixed = distributed.PrefixStore(f"default group {times}", store)
    distributed.init_process_group(backend, store=prefixed, rank=rank, world_size=world_size, **how)
    _kept[place][1] += 1
