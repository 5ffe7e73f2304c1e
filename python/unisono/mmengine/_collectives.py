"""Collectives on tensors. A group is None for all ranks; all ranks of the group make the call, with tensors of one shape and dtype.

Errors of all: NotMember where this rank is not in the group; DistBackendError from torch.distributed where a rank failed, did not come, or called otherwise.
"""

import hashlib
import itertools

import torch
from torch import distributed
from torch.distributed import ReduceOp

from . import _ranks
from ._devices import get_comm_device

_OPERATIONS = {
    "sum": ReduceOp.SUM,
    "mean": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}


def _operation(op):
    if isinstance(op, str):
        name = op.lower()
        name = "product" if name == "produce" else name  # the original's documents spell it so
    else:
        name = next((name for name, known in _OPERATIONS.items() if op == known), None)
    if name not in _OPERATIONS:
        raise ValueError(f"reduce op should be one of {list(_OPERATIONS)} or a torch.distributed.ReduceOp of these, but got {op}")
    return name


def _get_reduce_op(name):
    """The ReduceOp of an operation's name, as in the original; for "mean" AVG. ValueError: another name."""
    return _OPERATIONS[_operation(name)]


def _check_dtypes(op, tensors):
    # Before anything is sent: a call on many tensors reduces all of them or none.
    for tensor in tensors:
        number = tensor.is_floating_point() or tensor.is_complex()
        if (op == "mean" and tensor.dtype == torch.bool) or (op in ("band", "bor", "bxor") and number) or (op in ("min", "max") and tensor.is_complex()):
            raise ValueError(f"there is no {op} of {tensor.dtype}")


def all_reduce(data, op="sum", group=None):
    """Replaces `data` on every rank by the reduction over all ranks. Returns None.

    op: sum, mean, product, min, max, band, bor or bxor, in any case, or the ReduceOp. The mean of integers is exact, and truncated toward zero. ValueError:
    another op, or one that the dtype does not have, also alone. Unlike the original, `data` may have any strides.
    """
    op, size = _operation(op), _ranks.member_size(group)
    _check_dtypes(op, [data])
    if size == 1:
        return
    with torch.no_grad():
        x = data.to(get_comm_device(group)).contiguous()
        distributed.all_reduce(x, ReduceOp.SUM if op == "mean" else _OPERATIONS[op], group)
        if op == "mean":
            x = x.div_(size) if x.is_floating_point() or x.is_complex() else x.div_(size, rounding_mode="trunc")
        if x.data_ptr() != data.data_ptr() or x.device != data.device:
            data.copy_(x)


def all_gather(data, group=None):
    """A list of every rank's `data`, in the order of the group, on the device of `data`. Alone it holds a copy."""
    size = _ranks.member_size(group)
    if size == 1:
        return [data.detach().clone()]
    x = data.detach().to(get_comm_device(group)).contiguous()
    result = [torch.empty_like(x) for _ in range(size)]
    distributed.all_gather(result, x, group)
    return [y.to(data.device) for y in result]


def gather(data, dst=0, group=None):
    """As `all_gather` on rank `dst` of the group; an empty list elsewhere. ValueError where the group has no rank `dst`."""
    rank, size = _ranks.get_rank(group), _ranks.member_size(group)
    _ranks.check_root(dst, size, "dst")
    if size == 1:
        return [data.detach().clone()]
    x = data.detach().to(get_comm_device(group)).contiguous()
    result = [torch.empty_like(x) for _ in range(size)] if rank == dst else None
    distributed.gather(x, result, group=group, group_dst=dst)
    return [y.to(data.device) for y in result or []]


def broadcast(data, src=0, group=None):
    """Replaces `data` on every rank by that of rank `src` of the group. Any strides. ValueError where the group has no rank `src`."""
    size = _ranks.member_size(group)
    _ranks.check_root(src, size, "src")
    if size == 1:
        return
    with torch.no_grad():
        x = data.to(get_comm_device(group)).contiguous()
        distributed.broadcast(x, group=group, group_src=src)
        if _ranks.get_rank(group) != src and (x.data_ptr() != data.data_ptr() or x.device != data.device):
            data.copy_(x)


def all_reduce_dict(data, op="sum", group=None):
    """Reduces the tensors of a dict over all ranks, in place: one call for all of one dtype. Returns None.

    The ranks have the same keys with the same shapes and dtypes, in any order. Otherwise, or if a dtype does not have the op, every rank raises
    ValueError before anything is reduced. AssertionError: no dict. Unlike the original, each tensor keeps its dtype, and whoever else holds it sees
    the result.
    """
    if not isinstance(data, dict):
        raise AssertionError(f"data should be a dict, but got {type(data)}")
    op = _operation(op)
    _check_dtypes(op, data.values())
    if _ranks.member_size(group) == 1:
        return
    keys = sorted(data, key=str)
    _check_alike([(str(key), str(data[key].dtype), tuple(data[key].shape)) for key in keys], group)
    _all_reduce_coalesced([data[key] for key in keys], -1, op, group)


def _check_alike(own, group):
    # Eight bytes travel where all is well, and the descriptions only to say what is wrong.
    digest = int.from_bytes(hashlib.blake2b(repr(own).encode(), digest_size=8).digest(), "little", signed=True)
    if len({x.item() for x in all_gather(torch.tensor(digest), group)}) == 1:
        return
    every = [None] * _ranks.get_world_size(group)
    distributed.all_gather_object(every, own, group)
    odd = next(rank for rank, other in enumerate(every) if other != every[0])
    differing = sorted(set(every[0]) ^ set(every[odd]))
    raise ValueError(f"the dicts differ: ranks 0 and {odd} do not share {', '.join(map(str, differing))}")


def all_reduce_params(params, coalesce=True, bucket_size_mb=-1, op="sum", group=None):
    """Reduces a model's parameters or buffers over all ranks, in place. Returns None.

    params: tensors, in a list or from a generator, which is read in any case. coalesce: with one call for all of one dtype, or one for each
    `bucket_size_mb` MiB of them where that is positive. ValueError: an unknown op.
    """
    op, tensors = _operation(op), [param.data for param in params]
    _check_dtypes(op, tensors)
    if _ranks.member_size(group) == 1:
        return
    if coalesce:
        _all_reduce_coalesced(tensors, bucket_size_mb, op, group)
    else:
        for tensor in tensors:
            all_reduce(tensor, op, group)


def _all_reduce_coalesced(tensors, bucket_size_mb=-1, op="sum", group=None):
    with torch.no_grad():
        for bucket in _buckets(tensors, bucket_size_mb * 1024 * 1024):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            all_reduce(flat, op, group)
            for tensor, reduced in zip(bucket, flat.split([tensor.numel() for tensor in bucket])):
                tensor.copy_(reduced.view(tensor.shape))


def _buckets(tensors, limit):
    """Lists of tensors of one dtype and device, each of at most `limit` bytes (or one tensor), if that is positive."""
    kinds = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for alike in kinds.values():
        if limit <= 0:
            yield alike
            continue
        ends = itertools.accumulate(tensor.numel() * tensor.element_size() for tensor in alike)
        for _, bucket in itertools.groupby(zip(alike, ends), key=lambda pair: (pair[1] - 1) // limit):
            yield [tensor for tensor, _ in bucket]
