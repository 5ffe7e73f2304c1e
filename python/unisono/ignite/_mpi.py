"""Processes that a program starts itself, and that are one world of MPI: `unisono run` serves them as mpirun would."""

from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from .._function_job import FunctionJob, RankFailed

_running = []  # jobs that nobody joins may be dropped by the program, and their files may not


class SpawnedWorld:
    """A spawn that is not joined: `processes` with the one that has started the ranks, `pids()`, and join(), which returns their results."""

    def __init__(self, job):
        self._job = job
        self.processes = [job.process]

    def pids(self):
        return [process.pid for process in self.processes]

    def join(self):
        """As that of _spawn.SpawnedProcesses."""
        try:
            results = self._job.join()
        except RankFailed as failed:
            index, pid = failed.rank - self._job.ranks[0], self._job.process.pid
            if failed.traceback:
                text = f"\n\n-- Process {index} (rank {failed.rank}) terminated with the following error:\n{failed.traceback}"
                raise ProcessRaisedException(text, index, pid) from None
            raise ProcessExitedException(str(failed), index, pid, exit_code=failed.exit_code, signal_name=failed.signal) from None
        finally:
            if self in _running:
                _running.remove(self)
        return [results.get(rank) for rank in self._job.ranks]


def spawn(backend, fn, args, kwargs, ranks, nodes, options, join):
    """ranks: of this node. nodes: the options of `unisono run` that say where several nodes meet. options: of initialize."""
    from . import utils

    job = FunctionJob("spawn", utils._run_in_job, (backend, options, fn, args, kwargs), ranks, ["--backend", "mpi", "-n", str(len(ranks)), *nodes])
    running = SpawnedWorld(job)
    if join:
        return running.join()
    _running.append(running)
    return running
