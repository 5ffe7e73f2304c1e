"""Which ranks share a host: exact, from what every rank says of itself."""

import os
import socket
from typing import NamedTuple


class Place(NamedTuple):
    """The place of a rank."""

    local_rank: int
    node_rank: int
    nproc_per_node: int  # of its own node
    nnodes: int


def own_entry(local_rank, node_hint=None):
    """(host, node as the launcher counts it or None, local rank or None): what this rank tells the others."""
    if node_hint is None:
        text = os.environ.get("GROUP_RANK") or os.environ.get("SLURM_NODEID")
        node_hint = int(text) if text and text.isdigit() else None
    return socket.gethostname(), node_hint, local_rank


def places(entries):
    """The Place of every rank from the entries of all, in rank order.

    Ranks of one host that say the same local rank are on nodes that somebody emulates on this host: the second of them is on the second such node.
    """
    nodes, node_of = {}, []
    seen = {}
    for host, hint, local_rank in entries:
        occurrence = 0
        if local_rank is not None:
            occurrence = seen.get((host, hint, local_rank), 0)
            seen[host, hint, local_rank] = occurrence + 1
        members = nodes.setdefault((host, hint, occurrence), [])
        members.append(len(node_of))
        node_of.append((host, hint, occurrence))
    local = {}
    for members in nodes.values():
        told = {entries[rank][2] for rank in members}
        free = iter(i for i in range(len(members) + len(told)) if i not in told)
        local.update({rank: next(free) if entries[rank][2] is None else entries[rank][2] for rank in members})
    order = list(nodes)
    return [Place(local[rank], order.index(node), len(nodes[node]), len(nodes)) for rank, node in enumerate(node_of)]


def launcher_local_rank(environ=os.environ):
    """The number from the launcher: LOCAL_RANK, or SLURM_LOCALID in a job of Slurm. None where it says nothing."""
    for name in ("LOCAL_RANK", "SLURM_LOCALID" if "SLURM_JOB_ID" in environ else ""):
        text = environ.get(name)
        if text:
            number = int(text)
            if number < 0:
                raise ValueError(f"{name} is {text}, and a local rank is not negative")
            return number
    return None
