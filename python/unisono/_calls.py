"""Calls that are written in Python: lists of arrays, arrays in shared memory, the results of all ranks, and what one rank does alone."""

import functools
import itertools
import math

from . import _core
from ._errors import InvalidArgument

_missing = object()


def _pieces(whole, counts, like):
    # The rows of arrays with several axes stay rows, where every rank's piece has whole ones.
    shape = tuple(getattr(like, "shape", ()))[1:]
    row = math.prod(shape)
    pieces, at = [], 0
    for count in counts:
        piece = whole[at : at + count]
        at += count
        pieces.append(piece.reshape((-1, *shape)) if shape and row and count % row == 0 else piece)
    return pieces


def all_gather_list(x, group=None, *, timeout=None, tag=0):
    """A list on every rank: element r is the buffer of rank r, as an array. They may be of different length.

        rows = unisono.all_gather_list(my_rows)
    """
    whole, counts = _core.all_gather_v(x, group=group, timeout=timeout, tag=tag)
    return _pieces(whole, counts, x)


def gather_list(x, dst=0, group=None, *, timeout=None, tag=0):
    """The same at rank `dst` only; None elsewhere."""
    whole, counts = _core.gather_v(x, dst=dst, group=group, timeout=timeout, tag=tag)
    return None if whole is None else _pieces(whole, counts, x)


def scatter_list(list=None, src=0, group=None, *, timeout=None, tag=0):
    """The r-th array of rank `src`'s list, on rank r. It has size() of them, of any length and dtype; elsewhere it does not count."""
    return _core.scatter_object(list, src, group, timeout=timeout, tag=tag)


def shared_array(shape, dtype="float32"):
    """A NumPy array, all 0, in memory that every rank of the host can reach: collectives on such arrays copy nothing twice.

        x = unisono.shared_array((1024, 1024))
        unisono.all_reduce(x)
    """
    import numpy

    dtype = numpy.dtype(dtype)
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    memory = _core.SharedBytes(math.prod(extents) * dtype.itemsize)
    return numpy.frombuffer(memory, dtype=dtype, count=math.prod(extents)).reshape(extents)


def collect_results(part, size, *, via="communication", tmpdir="", group=None, timeout=None):
    """On rank 0 the items of all ranks, interleaved: the first of rank 0, of rank 1, …, then the second of each; None elsewhere.

    part: this rank's items, a list of objects. At most `size` items (of rank 0) are kept, so that what a sampler has added to make parts even falls off
    the end. via: "communication", or "shared_dir": files in `tmpdir`, which all ranks reach, or in a new directory beside the working one.

        results = unisono.collect_results([evaluate(i) for i in sampler], len(dataset))
    """
    part = list(part)
    if via == "communication":
        parts = _core._collect(part, group, timeout=timeout)
    elif via == "shared_dir":
        parts = _core._collect_by_files(part, str(tmpdir), group, timeout=timeout)
    else:
        raise InvalidArgument(f'collect_results: results are collected via "communication" or "shared_dir", not {via!r}')
    if parts is None:
        return None
    rows = itertools.zip_longest(*parts, fillvalue=_missing)
    return [item for row in rows for item in row if item is not _missing][:size]


def one_rank_only(function=None, *, rank=0, with_barrier=False, group=None):
    """A function that runs on one rank of the group (the world of the time of the call), and returns None on the others.

    rank: an int within the group, or a GlobalRank; InvalidArgument at the call where there is none. Without a barrier nothing is communicated, and the
    ranks need not all call. With one, nobody returns before the rank is done, and an exception there is raised by the others as PeerFailed with its
    text; the group stays usable.

        @unisono.one_rank_only(with_barrier=True)
        def save(model, path): ...

        unisono.one_rank_only(print)("once")
    """
    if function is None:
        return functools.partial(one_rank_only, rank=rank, with_barrier=with_barrier, group=group)

    @functools.wraps(function)
    def on_one_rank(*args, **kwargs):
        ranks = _core.world() if group is None else group
        chosen = ranks.rank() == _core._rank_within(rank, ranks)
        if not with_barrier:
            return function(*args, **kwargs) if chosen else None
        result = failure = None
        try:
            if chosen:
                result = function(*args, **kwargs)
        except Exception as error:
            failure = error
        _core._agree(ranks, failure)
        return result

    return on_one_rank
