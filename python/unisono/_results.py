"""The results of all ranks, on one."""

import itertools

from . import _core
from ._errors import InvalidArgument

_missing = object()


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
