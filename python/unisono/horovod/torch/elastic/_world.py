"""The members of an elastic job: those of the group of unisono's own calls, which shrinks and grows. Horovod's groups are formed anew among them each time."""

import os
import socket
import uuid
from datetime import timedelta

from torch import distributed

import unisono

from .. import _job
from .._requests import HorovodInternalError

PATIENCE = timedelta(minutes=5)  # for the store in which the members meet

_group = None  # of all members, from join on
_owner = False  # whether join has initialized unisono
_served = []  # the store that this process serves where the launcher has none


def is_newcomer():
    """Whether the launcher has started this process in the place of a lost one, and it has not been taken in yet."""
    return _group is None and int(os.environ.get("UNISONO_NEWCOMER") or 0) > 0


def join():
    """Takes part. All members call it; a newcomer waits until they take it in. RuntimeError where torch.distributed's group is the program's."""
    global _group, _owner
    if _job.is_initialized() and not _job.owns_default_group():
        raise RuntimeError("elastic.run needs groups that hvd.init has formed, and the program had initialized torch.distributed before")
    if _group is None:
        _owner = not unisono.is_initialized()
        if _owner:
            unisono.initialize()
        _group = unisono.world()


def leave():
    """Takes part no more."""
    global _group, _owner
    owner, _owner, _group = _owner, False, None
    if owner:
        unisono.finalize()


def newcomers_wait():
    """Whether processes wait to be taken in: the same on all members, which all call it. HorovodInternalError where one was lost."""
    try:
        return _group is not None and unisono.newcomers_waiting(_group)
    except unisono.PeerFailed as error:
        raise HorovodInternalError(str(error)) from error


def form_default_group():
    """Makes torch.distributed's default group of the members."""
    is_first = _group.rank() == 0
    name = unisono.broadcast_object(uuid.uuid4().hex if is_first else "", 0, _group)
    store = distributed.PrefixStore(f"horovod {name}", _store(is_first))
    distributed.init_process_group("unisono", store=store, rank=_group.rank(), world_size=_group.size())


def _store(is_first):
    from ...._job_store import tcp_store
    from ....torch import _launcher_store

    store = _launcher_store.whole(os.environ.get("RANK"), os.environ.get("WORLD_SIZE"), PATIENCE) if "RANK" in os.environ else None
    if store is not None:
        return store
    host = "127.0.0.1" if unisono.nnodes() == 1 else socket.gethostname()
    own = tcp_store(host, 0, True, PATIENCE) if is_first else None
    host, port = unisono.broadcast_object((host, own.port) if is_first else None, 0, _group)
    _served[:] = [own]
    return own or tcp_store(host, port, False, PATIENCE)


def form_again(error):
    """Forms Horovod's groups among the members that there are now, those that wait among them. error: why that is necessary; None: somebody waits."""
    global _group
    while True:
        _job.leave()
        if error is not None:
            _drop_lost(error)
        try:
            _group = unisono.grow_group(_group)
            _job.begin(form_default_group)
            return
        except (ConnectionError, RuntimeError) as failed:
            error = failed


def _drop_lost(error):
    # Raises the error again where every member is there.
    global _group
    try:
        unisono.barrier(_group)
    except unisono.PeerFailed:
        rest = unisono.shrink_group(_group)
        if rest is None:
            raise HorovodInternalError("the other members have gone on without this one") from error
        _group = rest
    else:
        raise error
