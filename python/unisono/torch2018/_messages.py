"""Messages between two ranks."""

import unisono

from ._collectives import _DistributedRequest, check_tensors
from ._errors import refuse, with_errors_of_2018
from ._job import group, group_of


def _checked(operation, tensor, group):
    members = group_of(group, operation)
    check_tensors(operation, tensor)
    return members


@with_errors_of_2018
def send(tensor, dst, group=group.WORLD, tag=0):
    """Sends a tensor to rank `dst` of the world. Up to 64 KiB it returns before the receiver has come."""
    members = _checked("send", tensor, group)
    if members is not None:
        unisono.send(tensor, unisono.GlobalRank(dst), members, tag=tag)


@with_errors_of_2018
def recv(tensor, src=None, group=group.WORLD, tag=0):
    """Receives a tensor from rank `src` of the world, or from any, and returns the sender's rank; -1 for a process that is not a member."""
    members = _checked("recv", tensor, group)
    if members is None:
        return -1
    return members.global_rank(unisono.recv(tensor, unisono.any_source if src is None else unisono.GlobalRank(src), members, tag=tag))


@with_errors_of_2018
def isend(tensor, dst, group=group.WORLD, tag=0):
    """send that returns at once: a request. The tensor stays as it is until the request is done."""
    members = _checked("isend", tensor, group)
    if members is not None:
        return _DistributedRequest(unisono.isend(tensor, unisono.GlobalRank(dst), members, tag=tag))


@with_errors_of_2018
def irecv(tensor, src, group=group.WORLD, tag=0):
    """recv that returns at once: a request."""
    members = _checked("irecv", tensor, group)
    if src is None:
        refuse("irecv", "src is a rank", "recv takes from any")
    if members is not None:
        return _DistributedRequest(unisono.irecv(tensor, unisono.GlobalRank(src), members, tag=tag))
