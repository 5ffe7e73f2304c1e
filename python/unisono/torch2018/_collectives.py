"""Collectives on tensors, in place. A process that is not a member of the group returns at once."""

import torch

import unisono

from ._errors import WrongType, refuse, with_errors_of_2018
from ._job import get_rank, group, group_of


class reduce_op:
    """How the elements of the ranks are combined."""

    SUM = object()
    PRODUCT = object()
    MAX = object()
    MIN = object()


_NAMES = {reduce_op.SUM: "sum", reduce_op.PRODUCT: "product", reduce_op.MAX: "max", reduce_op.MIN: "min"}


class _DistributedRequest:
    """A call that goes on: is_completed() looks, wait() waits. It keeps the tensors alive. `then` is what is left to do in Python when it is done."""

    def __init__(self, request, then=None):
        self.request, self._then = request, then

    def _finish(self):
        then, self._then = self._then, None
        if then is not None:
            then()

    def is_completed(self):
        """Whether it is done, well or not. Never blocks."""
        done = self.request.is_completed()
        if done and self.request.exception() is None:
            self._finish()
        return done

    @with_errors_of_2018
    def wait(self):
        """Returns when it is done; raises its error."""
        self.request.wait()
        self._finish()


def op_name(op, operation):
    try:
        return _NAMES[op]
    except (KeyError, TypeError):
        refuse(operation, "op should be a constant from torch.distributed.reduce_op")


def check_tensors(operation, *tensors):
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            refuse(operation, f"a tensor is needed, not a {type(tensor).__name__}", kind=WrongType)
        if tensor.layout is not torch.strided:
            refuse(operation, "only dense tensors are supported")


def call(operation, *args, async_op=False, then=None, **kwargs):
    """unisono's function of that name, or its asynchronous form, of which a request is returned."""
    if async_op:
        return _DistributedRequest(getattr(unisono, f"{operation}_async")(*args, **kwargs), then)
    getattr(unisono, operation)(*args, **kwargs)
    if then is not None:
        then()
    return None


@with_errors_of_2018
def broadcast(tensor, src, group=group.WORLD, async_op=False):
    """`tensor` of every member becomes that of rank `src` of the world."""
    members = group_of(group, "broadcast")
    check_tensors("broadcast", tensor)
    if members is not None:
        return call("broadcast", tensor, unisono.GlobalRank(src), members, async_op=async_op)


@with_errors_of_2018
def all_reduce(tensor, op=reduce_op.SUM, group=group.WORLD, async_op=False):
    """`tensor` of every member becomes the combination of all, bit for bit the same everywhere."""
    members, name = group_of(group, "all_reduce"), op_name(op, "all_reduce")
    check_tensors("all_reduce", tensor)
    if members is not None:
        return call("all_reduce", tensor, name, members, async_op=async_op)


@with_errors_of_2018
def reduce(tensor, dst, op=reduce_op.SUM, group=group.WORLD, async_op=False):
    """`tensor` of rank `dst` of the world becomes the combination of all. The others' stay as they are."""
    members, name = group_of(group, "reduce"), op_name(op, "reduce")
    check_tensors("reduce", tensor)
    if members is not None:
        return call("reduce", tensor, unisono.GlobalRank(dst), name, members, async_op=async_op)


@with_errors_of_2018
def all_gather(tensor_list, tensor, group=group.WORLD, async_op=False):
    """tensor_list[i] becomes the tensor of the group's rank i; all have one size and type."""
    members = group_of(group, "all_gather")
    check_tensors("all_gather", tensor, *tensor_list)
    if members is not None:
        return call("all_gather", tensor, list(tensor_list), members, async_op=async_op)


@with_errors_of_2018
def gather(tensor, gather_list=None, dst=None, group=group.WORLD, async_op=False, **kwargs):
    """gather_list[i] at rank `dst` of the world becomes the tensor of the group's rank i.

    The rank that gives a list need not give `dst`: it is the destination. The others give it, and no list.
    """
    members, dst = _with_root("gather", "dst", dst, gather_list, group, kwargs)
    is_here = dst == get_rank()
    if is_here and gather_list is None:
        refuse("gather", "gather_list is a required argument in gather destination", "a rank that is not the destination gives dst")
    if not is_here and gather_list:
        refuse("gather", "non-empty gather_list can be given only to gather destination")
    check_tensors("gather", tensor, *(gather_list or ()))
    if members is not None:
        return call("gather", tensor, list(gather_list) if is_here else None, unisono.GlobalRank(dst), members, async_op=async_op)


@with_errors_of_2018
def scatter(tensor, scatter_list=None, src=None, group=group.WORLD, async_op=False, **kwargs):
    """`tensor` of the group's rank i becomes scatter_list[i] of rank `src` of the world.

    The rank that gives a list need not give `src`: it is the source. The others give it, and no list.
    """
    members, src = _with_root("scatter", "src", src, scatter_list, group, kwargs)
    is_here = src == get_rank()
    if is_here and scatter_list is None:
        refuse("scatter", "scatter_list is a required argument in scatter source", "a rank that is not the source gives src")
    if not is_here and scatter_list:
        refuse("scatter", "non-empty scatter_list can be given only to scatter source")
    check_tensors("scatter", tensor, *(scatter_list or ()))
    if members is not None:
        return call("scatter", list(scatter_list) if is_here else None, tensor, unisono.GlobalRank(src), members, async_op=async_op)


def _with_root(operation, name, root, tensors, group, kwargs):
    members = group_of(group, operation)
    if kwargs:
        refuse(operation, f"got unexpected kwargs: {', '.join(kwargs)}")
    return members, get_rank() if root is None else root


@with_errors_of_2018
def barrier(group=group.WORLD, async_op=False):
    """Returns when every member has called it."""
    members = group_of(group, "barrier")
    if members is not None:
        return call("barrier", members, async_op=async_op)
