"""Master-worker mode: rank 0 drives the other ranks, which serve, and has tensors on them. It is unisono.Controller under the name of 2018."""

import warnings

import unisono

from . import _job
from ._errors import with_errors_of_2018


@with_errors_of_2018
def init_master_worker(backend, init_method="env://", timeout=None, **kwargs):
    """Joins the job with the arguments of init_process_group. Rank 0 goes on as the master; the other ranks serve in this call, and end with it.

        dist.init_master_worker("tcp", init_method="tcp://10.1.1.20:23456", rank=args.rank, world_size=4)
        x = dist.FloatTensor(2, 3).fill_(1)             # on the first worker, which is rank 1 of the job
        y = (x * 2).cpu()

    Afterwards this module has the seven types of remote tensors, dist.FloatTensor and its like, and their storages. Collectives are for process groups alone,
    and raise AssertionError here. Returns the unisono.Controller, whose workers call functions as well. destroy_process_group() ends them.

    Needs unisono-torch. A call that fails leaves nothing behind.
    """
    warnings.warn("Master-worker mode is still experimental: its API was never finished in 2018, and unisono.Controller is what it is here", stacklevel=3)
    world_size, rank, group_name = _job.options_of("init_master_worker", kwargs)
    _job.require_uninitialized("init_master_worker")
    from ..torch import _remote

    number = _job._number_of(backend)
    place = _job.meeting("init_master_worker", number, init_method, world_size, rank, group_name)
    _job.join(number, _job._ENGINES[number], _job._INITIALIZED_MW, timeout=timeout, **place)
    try:
        _job._State.controller = unisono.Controller(timeout=timeout)  # where the others stay
        _remote.install()
        _remote.check()
    except Exception:
        _job.destroy_process_group()
        raise
    from . import _extend_scope, _remote_types

    _extend_scope(_remote_types)
    return _job._State.controller
