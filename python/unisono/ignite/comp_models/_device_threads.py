"""Ranks that are threads of this process, each with one of XLA's devices on the cpu.

torch_xla compiles a program for each device there, and XLA's collectives of different programs do not find each other: XLA waits for 10 s, and ends the
process. So what the threads exchange goes over unisono, of which each thread is a member.
"""

import threading

import torch_xla.runtime as xr

import unisono

from ... import _ending
from .base import is_list_of_ranks

_store = unisono.MemoryStore()
_here = threading.local()  # of each thread: its memberships by ranks, and how many it had of each


class DeviceThreads:
    """The functions that a computation model asks of its ranks. One object serves all threads."""

    def __init__(self, timeout=None):
        self._timeout = timeout.total_seconds() if hasattr(timeout, "total_seconds") else timeout

    def get_rank(self):
        return xr.global_ordinal()

    get_local_rank = get_rank

    def get_world_size(self):
        return xr.world_size()

    get_nproc_per_node = get_world_size

    def get_nnodes(self):
        return 1

    def get_node_rank(self):
        return 0

    def is_alive(self):
        return True

    def finalize(self):
        """The members stay as long as their threads."""

    def abandon(self, error):
        """Tells the other threads that wait for this one."""
        memberships, _here.memberships = getattr(_here, "memberships", {}), {}
        for membership in memberships.values():
            membership.abandon(_ending.describe(error) or "left its scope")

    def _setup_group(self, group):
        if group is not None and not is_list_of_ranks(group):
            raise ValueError("Argument group should be list of int")
        return group

    def new_group(self, ranks, **kwargs):
        return sorted(ranks)

    def _rank_not_in_group(self, group):
        return group is not None and self.get_rank() not in group

    def _group_ranks(self, group):
        return list(range(self.get_world_size())) if group is None else sorted(group)

    def _group(self, group):
        # Its members make the first call.
        ranks = tuple(self._group_ranks(group))
        memberships, times = _here.__dict__.setdefault("memberships", {}), _here.__dict__.setdefault("times", {})
        if ranks not in memberships:
            times[ranks] = times.get(ranks, 0) + 1
            place = unisono.PrefixStore(f"{ranks} {times[ranks]}", _store)
            memberships[ranks] = unisono.Membership(place, ranks.index(self.get_rank()), len(ranks), name="devices", timeout=self._timeout)
        return memberships[ranks].group()

    def _do_all_reduce(self, tensor, op, group=None):
        dense = tensor.detach().contiguous()
        unisono.all_reduce(dense.view(-1), op, self._group(group))
        _put_back(tensor, dense)

    def _do_all_gather(self, tensor, group=None):
        members = self._group(group)
        out = tensor.new_empty((members.size() * tensor.shape[0], *tensor.shape[1:]))
        unisono.all_gather(tensor.detach().contiguous().view(-1), out.view(-1), members)
        return out

    def _do_broadcast(self, tensor, src, group=None):
        dense = tensor.detach().contiguous()
        unisono.broadcast(dense.view(-1), self._group_ranks(group).index(src), self._group(group))
        _put_back(tensor, dense)

    def barrier(self, group=None):
        unisono.barrier(self._group(group))


def _put_back(tensor, dense):
    if dense.data_ptr() != tensor.data_ptr():  # a copy, since the tensor does not lie row by row
        tensor.detach().copy_(dense)
