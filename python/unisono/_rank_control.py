"""What one rank does alone."""

import functools

from . import _core


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
