"""A part in a group that has nothing to do with the process's job."""

from __future__ import annotations

import weakref

from . import _core, _ending
from ._types import Seconds

_living: weakref.WeakSet = weakref.WeakSet()


class Membership(_core.Membership):
    """A part in a group beside the job, or without one, for programs that start and find their processes by themselves.

    store: of these members and this group alone; give each group a PrefixStore of its own. Nothing is read or written there once the group is formed.
    rank, size: of this member, and how many there are. name: what errors call the group. backend: as of initialize.
    timeout: seconds of forming the group, and of its calls. library: a text that all members must have alike, beside the version of unisono.

    Returns once all members have come; raises what initialize raises. As a scope it leaves the group at the end; an exception that leaves the scope
    ends the group for all members, who get PeerFailed with its text. A program that ends without leaving does it then, and one that drops the Membership
    and all its groups when the last of them goes.

        with unisono.Membership(store, rank=r, size=n) as member:
            unisono.all_reduce(x, group=member.group())
    """

    def __init__(
        self,
        store: _core.Store,
        rank: int = 0,
        size: int = 1,
        *,
        name: str = "world",
        backend: str = "auto",
        timeout: Seconds = None,
        library: str = "",
    ):
        super().__init__(store, rank, size, name, backend, timeout, library)
        _living.add(self)
        _ending.watch(__name__)

    def __enter__(self) -> Membership:
        return self

    def __exit__(self, type: object, error: BaseException | None, traceback: object) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.leave()
        else:
            self.abandon(_ending.describe(error) or "left its scope")


def end_all(how: str) -> None:
    """What the end of the program calls: see _ending."""
    for member in list(_living):
        if how:
            member.abandon(how)
        else:
            member.leave_at_exit()
