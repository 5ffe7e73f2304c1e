"""Lists of arrays that are returned, and arrays in shared memory."""

import math

from . import _core


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
