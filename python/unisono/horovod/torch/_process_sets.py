"""Process sets: subsets of the ranks that make calls together."""

from torch import distributed

from ._requests import InvalidCall
from ._worker import Worker

_sets = {}  # id -> ProcessSet that was added
_next_id = 1


class ProcessSet:
    """Some of the ranks, for the argument `process_set` of every call. It is usable after `init(process_sets=[…])` or `add_process_set`.

        even = hvd.add_process_set(hvd.ProcessSet([0, 2]))

    ranks: within the job, sorted. process_set_id: None before it is added and after it is removed. ValueError: ranks that are not integers, or one
    twice.
    """

    process_set_id = None
    ranks = None
    mpi_comm = None

    def __init__(self, ranks_or_comm):
        try:
            ranks = sorted(ranks_or_comm)
        except TypeError:
            ranks = [None]
        if any(not isinstance(rank, int) for rank in ranks) or len(set(ranks)) != len(ranks):
            raise ValueError("ProcessSet should be initialized with a list of process ranks; unisono takes no MPI communicator")
        self.ranks = ranks
        self._worker = None

    def size(self):
        """The number of ranks; None before it is added."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self):
        """This process's rank within the set; None before it is added. ValueError where this process is not included."""
        if self.process_set_id is None:
            return None
        if not self.included():
            raise ValueError(f"this process is not included in {self}")
        from ._job import rank

        return self.ranks.index(rank())

    def included(self):
        """Whether this process belongs to it. ValueError before `init`."""
        from ._job import rank

        return rank() in self.ranks

    def __str__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm=None)"

    def _working(self):
        # The worker, for a call on this set.
        if self.process_set_id is None or (self is global_process_set and not self.ranks):
            from ._job import rank

            rank()
            raise InvalidCall(f"{self} was not added, or was removed: use add_process_set on all ranks")
        if self._worker is None:
            raise InvalidCall(f"this process is not included in {self}, and cannot make calls on it")
        return self._worker


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def of_ranks(ranks):
    """The process set of these ranks that is there already, or None."""
    return next((each for each in (global_process_set, *_sets.values()) if each.ranks == sorted(ranks)), None)


def form_global():
    """Makes the worker of the set of all ranks. All ranks call it."""
    global_process_set.ranks = list(range(distributed.get_world_size()))
    global_process_set._worker = Worker(distributed.new_group(backend="unisono"), "global")


def add_process_set(process_set):
    """Adds a process set, given as such or as a list of ranks, and returns it. All ranks of the job call it, with the same ranks, included or not.

    ValueError: a rank that is none of the job, no rank at all, or a set of the same ranks that is there already.
    """
    global _next_id
    process_set = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    world = global_process_set._working()
    if not process_set.ranks or not 0 <= process_set.ranks[0] <= process_set.ranks[-1] < world.size:
        raise ValueError(f"the ranks of a process set are some of 0 to {world.size - 1}, and it has one at least: {process_set}")
    if of_ranks(process_set.ranks):
        raise ValueError(f"Attempted to add a duplicate process set: {process_set}")
    group = distributed.new_group(process_set.ranks, backend="unisono")
    process_set.process_set_id, _next_id = _next_id, _next_id + 1
    _sets[process_set.process_set_id] = process_set
    if process_set.included():
        process_set._worker = Worker(group, f"set {process_set.process_set_id}")
    return process_set


def remove_process_set(process_set):
    """Removes a process set. All ranks of the job call it, after their calls on it are done. False if it was not added, or is the global one."""
    if process_set.process_set_id is None or process_set is global_process_set:
        return False
    from ._moving import barrier

    barrier()
    _forget(process_set)
    return True


def _forget(process_set):
    _sets.pop(process_set.process_set_id, None)
    process_set.process_set_id = None
    if process_set._worker is not None:
        process_set._worker.stop()
        distributed.destroy_process_group(process_set._worker.group)
        process_set._worker = None


def end_all():
    """Ends all workers and their groups."""
    global _next_id
    for process_set in list(_sets.values()):
        _forget(process_set)
    _next_id = 1
    if global_process_set._worker is not None:
        global_process_set._worker.stop()
        distributed.destroy_process_group(global_process_set._worker.group)
        global_process_set._worker = None
    global_process_set.ranks = []
