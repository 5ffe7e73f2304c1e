"""The store in which the ranks of a launched job meet, also when they form torch.distributed's default group again."""

import ipaddress
import os
import socket
from datetime import timedelta
from urllib.parse import urlsplit

from torch import distributed

_kept = {}  # by place: the store, and how many groups of the same members were formed there


def init_process_group(backend, url, rank, world_size, timeout=None, make=None, members=None, **how):
    """torch.distributed.init_process_group at `url`, whose store stays for the life of this process. "env://" under `unisono run` is the launcher's.

    The server of a store that ended with its group would still be there for a rank that begins again before rank 0 has left, and end under it. `make`: a
    function that makes the store, where the one at `url` is not wanted. members: the ranks that form the group, in this order; None: all. timeout: a timedelta.
    """
    from .torch import _launcher_store

    # Another process, by fork, has no part in its parent's connections.
    place = (os.getpid(), url, rank, world_size, *(os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")))
    if place not in _kept:
        patience = timeout or timedelta(minutes=5)
        found = _launcher_store.find(rank, world_size, patience) if url == "env://" else None
        _kept[place] = found or (make(patience) if make else _store_at(url, rank, world_size, patience)), {}
    store, formed = _kept[place]
    store.set_timeout(timeout or distributed.distributed_c10d.default_pg_timeout)
    if timeout is not None:
        how["timeout"] = timeout
    of_whom = "" if members is None else f" of {members}"
    prefixed = distributed.PrefixStore(f"default group {formed.get(of_whom, 0)}{of_whom}", store)
    if members is not None:
        rank, world_size = members.index(rank), len(members)
    distributed.init_process_group(backend, store=prefixed, rank=rank, world_size=world_size, **how)
    formed[of_whom] = formed.get(of_whom, 0) + 1


def tcp_store(host, port, is_server, patience):
    """A TCPStore of PyTorch. At an address of loopback its server listens on that one alone, and not on all addresses as PyTorch's own."""
    how = {"wait_for_workers": False, "multi_tenant": True}
    if is_server and is_loopback(host) and (listening := _listening(host, port)):
        port = listening.getsockname()[1]
        how["master_listen_fd"] = listening.detach()
    return distributed.TCPStore(host, port, None, is_server, patience, **how)


def _store_at(url, rank, world_size, patience):
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port
    if url == "env://":
        host, port = os.environ.get("MASTER_ADDR"), int(os.environ.get("MASTER_PORT", 0))
    is_ours = parts.scheme in ("env", "tcp") and not parts.query and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    if is_ours and host and port:
        return tcp_store(host, port, rank == 0, patience)
    return next(distributed.rendezvous(url, rank, world_size, timeout=patience))[0]


def is_loopback(host):
    """Whether `host` is localhost, or the number of an address of loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host, port):
    # A socket that listens there and nowhere else; None where the address is in use, perhaps by a store of this process.
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(socket.SOMAXCONN)
    except OSError:
        listening.close()
        return None
    return listening
