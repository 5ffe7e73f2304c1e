"""A part in a group that has nothing to do with the process's job."""

from __future__ import annotations

import weakref

from . import _core, _ending
from ._types import Seconds

_living: weakref.WeakSet = weakref.WeakSet()


class Membership(_core._Membership):
    """A part in a group beside the job, or without one.

    It is for programs that start and find their processes by themselves. The constructor returns
    once all members have come. As a scope it leaves the group at the end; an exception that leaves
    the scope ends the group for all members, who get PeerFailed with its text. A program that ends
    without leaving does it then. One that drops the Membership and all its groups leaves when the
    last of them goes.

    Parameters
    ----------
    store : Store
        A store of these members and this group alone: each group has a PrefixStore of its own.
        Nothing is read or written there once the group is formed.
    rank : int, default 0
        The number of this member.
    size : int, default 1
        The number of members.
    name : str, default "world"
        The name of the group in errors.
    backend : str, default "auto"
        As in `initialize`.
    timeout : float or timedelta, optional
        The seconds of forming the group, and of its calls.
    library : str, default ""
        A text that all members must have alike, beside the version of unisono.

    Methods
    -------
    group()
        Returns the group.
    leave()
        Waits, at most 10 s, for operations under way, and tells the others.
    leave_at_exit()
        Does the same for a program that ends without leaving.
    abandon(how="")
        Leaves without waiting. With a text the group ends for all members.

    Raises
    ------
    InvalidArgument
        If a number does not fit.
    ProtocolError
        If the members have different versions of unisono, or another `library`.
    Timeout
        If a member does not come in time.
    BackendUnavailable
        If the backend cannot run here.

    Examples
    --------
    >>> store = unisono.MemoryStore()
    >>> with unisono.Membership(store, rank=0, size=1, name="mine") as member:
    ...     unisono.all_reduce(3, group=member.group())
    3
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
    """The end of the program calls it: see _ending."""
    for member in list(_living):
        if how:
            member.abandon(how)
        else:
            member.leave_at_exit()
