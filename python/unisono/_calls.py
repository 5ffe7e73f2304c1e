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
    """Collects an array of each rank, of any length, in a list on every rank.

    Parameters
    ----------
    x : buffer
        This rank's array, of the same dtype on every rank.
    group : ProcessGroup, optional
        The ranks that call. None stands for the world.
    timeout : float or timedelta, optional
        The seconds that the call may take. None stands for the group's own timeout.
    tag : int, default 0
        A number on which the ranks must agree.

    Returns
    -------
    list of arrays
        Element r holds the elements of rank r. Its axes after the first are those of `x`.

    Raises
    ------
    InvalidArgument
        If `x` is not a buffer.
    Mismatch
        If the ranks call different things. All ranks raise it, nothing was moved, and the group
        stays usable.
    Timeout
        If a rank does not come in time. The group has ended then.
    PeerFailed
        If a rank is gone or has given up. The group has ended then.
    NotInitialized
        If the process was launched as one of several and has not called `initialize`.

    Examples
    --------
    On each of two ranks:

    >>> unisono.all_gather_list(numpy.full(unisono.rank() + 1, unisono.rank()))
    [array([0]), array([1, 1])]
    """
    whole, counts = _core.all_gather_v(x, group=group, timeout=timeout, tag=tag)
    return _pieces(whole, counts, x)


def gather_list(x, dst=0, group=None, *, timeout=None, tag=0):
    """Collects an array of each rank, of any length, in a list on rank `dst`.

    Parameters
    ----------
    x : buffer
        This rank's array, of the same dtype on every rank.
    dst : int or GlobalRank, default 0
        The rank within the group that gets the list.
    group : ProcessGroup, optional
        The ranks that call. None stands for the world.
    timeout : float or timedelta, optional
        The seconds that the call may take. None stands for the group's own timeout.
    tag : int, default 0
        A number on which the ranks must agree.

    Returns
    -------
    list of arrays or None
        On `dst` what `all_gather_list` returns; None on every other rank.

    Raises
    ------
    InvalidArgument
        If `x` is not a buffer, or the group has no rank `dst`.
    Mismatch
        If the ranks call different things. All ranks raise it, nothing was moved, and the group
        stays usable.
    Timeout
        If a rank does not come in time. The group has ended then.
    PeerFailed
        If a rank is gone or has given up. The group has ended then.
    NotInitialized
        If the process was launched as one of several and has not called `initialize`.

    Examples
    --------
    On each of two ranks:

    >>> arrays = unisono.gather_list(numpy.ones(unisono.rank() + 1))
    >>> [len(x) for x in arrays] == [1, 2] if unisono.rank() == 0 else arrays is None
    True
    """
    whole, counts = _core.gather_v(x, dst=dst, group=group, timeout=timeout, tag=tag)
    return None if whole is None else _pieces(whole, counts, x)


def scatter_list(list=None, src=0, group=None, *, timeout=None, tag=0):
    """Shares out the arrays of a list of rank `src`: rank r gets the r-th one.

    Parameters
    ----------
    list : sequence of arrays, optional
        On `src` size() arrays, of any length and dtype. Elsewhere it does not count.
    src : int or GlobalRank, default 0
        The rank within the group whose list is shared out.
    group : ProcessGroup, optional
        The ranks that call. None stands for the world.
    timeout : float or timedelta, optional
        The seconds that the call may take. None stands for the group's own timeout.
    tag : int, default 0
        A number on which the ranks must agree.

    Returns
    -------
    array
        A copy of this rank's array. It travels as an object does (`scatter_object`).

    Raises
    ------
    InvalidArgument
        On all ranks, if the list has not size() elements. The group stays usable.
    Mismatch
        If the ranks call different things. All ranks raise it, nothing was moved, and the group
        stays usable.
    Timeout
        If a rank does not come in time. The group has ended then.
    PeerFailed
        If a rank is gone or has given up. The group has ended then.
    NotInitialized
        If the process was launched as one of several and has not called `initialize`.

    Examples
    --------
    On each of two ranks:

    >>> arrays = [numpy.zeros(2), numpy.ones(3)] if unisono.rank() == 0 else None
    >>> len(unisono.scatter_list(arrays)) == unisono.rank() + 2
    True
    """
    return _core.scatter_object(list, src, group, timeout=timeout, tag=tag)


def shared_array(shape, dtype="float32"):
    """Makes a NumPy array in memory that every rank of the host can reach.

    Collectives on such arrays copy nothing twice.

    Parameters
    ----------
    shape : int or tuple of int
        The extents of the array.
    dtype : str or numpy.dtype, default "float32"
        The type of its elements.

    Returns
    -------
    numpy.ndarray
        The array, all 0.

    Raises
    ------
    MemoryError
        If there is no memory for it.

    Examples
    --------
    On each of two ranks:

    >>> x = unisono.shared_array((2, 2))
    >>> x += unisono.rank()
    >>> unisono.all_reduce(x)
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    import numpy

    dtype = numpy.dtype(dtype)
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    memory = _core.SharedBytes(math.prod(extents) * dtype.itemsize)
    return numpy.frombuffer(memory, dtype=dtype, count=math.prod(extents)).reshape(extents)


def collect_results(part, size, *, via="communication", tmpdir="", group=None, timeout=None):
    """Collects the items of all ranks on rank 0, interleaved.

    The first item of rank 0 comes first, then that of rank 1, and so on; then the second of each.

    Parameters
    ----------
    part : iterable of object
        This rank's items, which pickle takes. Parts may differ in length.
    size : int
        The most items that are kept, so that what a sampler has added to make the parts even
        falls off the end. That of rank 0 counts.
    via : str, default "communication"
        "communication", or "shared_dir" for files in a directory.
    tmpdir : str or path, default ""
        A directory that all ranks reach. "" stands for a new one beside the working directory.
    group : ProcessGroup, optional
        The ranks that call. None stands for the world.
    timeout : float or timedelta, optional
        The seconds that the call may take. None stands for the group's own timeout.

    Returns
    -------
    list of object or None
        None on every other rank.

    Raises
    ------
    InvalidArgument
        For another `via`, and on the other ranks if an item of one rank cannot be pickled.
    Mismatch
        If the ranks call different things. All ranks raise it, nothing was moved, and the group
        stays usable.
    Timeout
        If a rank does not come in time. The group has ended then.
    PeerFailed
        If a rank is gone or has given up. The group has ended then.
    NotInitialized
        If the process was launched as one of several and has not called `initialize`.

    Examples
    --------
    On each of two ranks:

    >>> sampler = unisono.DistributedSampler(5, shuffle=False)
    >>> results = unisono.collect_results([i * i for i in sampler], 5)
    >>> results == ([0, 1, 4, 9, 16] if unisono.rank() == 0 else None)
    True
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
    """Makes a function that runs on one rank of the group, and returns None on the others.

    Without a barrier nothing is communicated, and the ranks need not all call.

    Parameters
    ----------
    function : callable, optional
        The function. Without it a decorator is returned.
    rank : int or GlobalRank, default 0
        The rank within the group that runs it.
    with_barrier : bool, default False
        Whether nobody returns before that rank is done. An exception there is then raised by the
        others as PeerFailed with its text; the group stays usable.
    group : ProcessGroup, optional
        The ranks. None stands for the world at the time of the call.

    Returns
    -------
    callable
        The function, or a decorator.

    Raises
    ------
    InvalidArgument
        By a call of the function, if there is no such rank.
    PeerFailed
        By a call of the function with a barrier, if it has raised on that rank.

    Examples
    --------
    On each of two ranks:

    >>> @unisono.one_rank_only(with_barrier=True)
    ... def save(name):
    ...     return name + ".npz"
    >>> save("model") == ("model.npz" if unisono.rank() == 0 else None)
    True
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
