"""Ranks, sizes and groups."""

import functools
import socket

from torch import distributed

from .._errors import NotMember

_local = None  # (default group, group of this host, was it asked for by init_local_group) of the job that was formed last


def is_distributed():
    """Whether torch.distributed is initialized, by `init_dist` or by the program itself."""
    return distributed.is_available() and distributed.is_initialized()


def get_default_group():
    """The group of all ranks. ValueError before initialization."""
    return distributed.distributed_c10d._get_default_group()


def get_backend(group=None):
    """The name of the group's backend, in lower case; None alone. ValueError where this rank is not in the group."""
    return distributed.get_backend(group or get_default_group()) if is_distributed() else None


def get_world_size(group=None):
    """The number of ranks in the group: 1 alone, -1 where this rank is not in the group."""
    return distributed.get_world_size(group or get_default_group()) if is_distributed() else 1


def get_rank(group=None):
    """This process's rank within the group: 0 alone, -1 if it is not in the group."""
    return distributed.get_rank(group or get_default_group()) if is_distributed() else 0


def get_dist_info(group=None):
    """`(rank, world_size)`; `(0, 1)` alone."""
    return get_rank(group), get_world_size(group)


def is_main_process(group=None):
    """Whether this is rank 0 of the group."""
    return get_rank(group) == 0


def master_only(func):
    """Decorator: rank 0 of the world calls the function, the others return None at once, and nobody waits."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs) if is_main_process() else None

    return wrapper


def barrier(group=None):
    """Returns when every rank of the group has called it. All ranks of the group call it; alone it returns at once."""
    if is_distributed():
        member_size(group)
        distributed.barrier(group or get_default_group())


def member_size(group):
    """The size of the group, for a collective on it. NotMember where this rank is not in the group."""
    size = get_world_size(group)
    if size < 0:
        raise NotMember("this rank is not a member of the group that the call was given")
    return size


def check_root(root, size, name):
    """Raises ValueError if `root` is not a rank of a group of `size`."""
    if not 0 <= root < size:
        raise ValueError(f"{name}={root} is not a rank of the group, which has ranks 0 to {size - 1}")


def form_local_group(host=None):
    """Forms the group of each host. All ranks of the job call it: each makes the groups of all hosts, as torch.distributed wants it.
    `host`: what the ranks of one host have in common; the host's name unless said."""
    global _local
    hosts = [None] * distributed.get_world_size()
    distributed.all_gather_object(hosts, socket.gethostname() if host is None else host)
    own = None
    for name in dict.fromkeys(hosts):
        group = distributed.new_group([rank for rank, other in enumerate(hosts) if other == name])
        if name == hosts[distributed.get_rank()]:
            own = group
    _local = (get_default_group(), own, host is not None)


def init_local_group(node_rank, num_gpus_per_node):
    """Says which ranks share a node: `num_gpus_per_node` of them, those of node `node_rank` in a row. All ranks of the job call it, once.

    It is not needed after `init_dist`, which groups the ranks by host. AssertionError in the second call; ValueError where this rank is not in that node.
    """
    if _local and _local[0] is get_default_group() and _local[2]:
        raise AssertionError("init_local_group was called before")
    first = node_rank * num_gpus_per_node
    if not first <= get_rank() < first + num_gpus_per_node:
        raise ValueError(f"rank {get_rank()} is not in node {node_rank} of {num_gpus_per_node} ranks each: its ranks begin with {first}")
    form_local_group((node_rank, num_gpus_per_node))


def get_local_group():
    """The group of the ranks on this host; None alone. RuntimeError where torch.distributed was initialized without `init_dist` and `init_local_group`."""
    if not is_distributed():
        return None
    if _local is None or _local[0] is not get_default_group():
        raise RuntimeError("Local process group is not created: use init_dist to initialize, or init_local_group on all ranks")
    return _local[1]


def get_local_size():
    """The number of ranks on this host; 1 alone. RuntimeError as `get_local_group`."""
    return get_world_size(get_local_group()) if is_distributed() else 1


def get_local_rank():
    """This process's rank among those of its host; 0 alone. RuntimeError as `get_local_group`."""
    return get_rank(get_local_group()) if is_distributed() else 0
