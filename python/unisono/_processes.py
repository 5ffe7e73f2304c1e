"""Processes that are ranks of a job: started, watched, and asked for their results."""

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import shutil
import signal
import tempfile
import traceback

from . import _children, _core, _ending
from ._errors import InvalidArgument, LaunchFailed, PeerFailed, ProcessEnd, refusal


class RemoteTraceback(Exception):
    """The place at which an exception was raised in its own process."""

    def __str__(self):
        return "\n" + self.args[0]


def _end_with(parent):
    # The process ends with the one that has started it, also where that is killed.
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def _call(function, args, init):
    """Returns what function(local_rank, *args) returns in an initialized context."""
    from ._context import initialize

    initialize(**init)
    try:
        result = function(_core.local_rank(), *args)
    except BaseException as error:
        _core._leave_because(_ending.describe(error) or "left its scope")
        if isinstance(error, SystemExit) and not error.code:
            raise RuntimeError("it left by sys.exit before its function had returned") from None
        raise
    _core.finalize()
    return result


def main(connection, parent, init, function, args):
    """Calls function(local_rank, *args) as a rank of a job. It comes as bytes: what goes wrong with it is this rank's failure. Args that are sent by
    value do so as well."""
    _end_with(parent)
    try:
        function = _children.loads("spawn", function)
        result = _call(function, _children.loads("spawn", args) if isinstance(args, bytes) else args, init)
        answer = _children.answerer().dumps((True, result, ""), protocol=5)
    except BaseException as error:
        answer = _children.answerer().dumps((False, _children.portable(error), traceback.format_exc()), protocol=5)
    connection.send_bytes(answer)
    connection.close()
    # Its exit code says what became of it, and nothing that it has left behind changes that.
    raise SystemExit(0 if pickle.loads(answer)[0] else 1)


class Rank(_children.Child):
    """A process that runs `main`."""

    @property
    def is_consequence(self):
        return self.ended_by_us or (self.answer is not None and isinstance(self.answer[1], PeerFailed))

    def end(self):
        code = self.process.exitcode
        error = self.answer[1] if self.answer is not None and not self.answer[0] else None
        return ProcessEnd(
            rank=self.rank,
            exit_code=code if code is None or code >= 0 else None,
            signal=signal.Signals(-code).name if code is not None and code < 0 else None,
            error=error,
            traceback=self.answer[2] if error is not None else "",
            failed=self.failed,
            is_consequence=self.failed and self.is_consequence,
        )


def run(function, args, here, world_size, first, options):
    writer = _children.writer("spawn", function, args)
    try:
        pickled = writer.dumps(function, protocol=5)
    except Exception as error:
        raise InvalidArgument(f"spawn: the function cannot be sent to other processes, as one of a module can: {error}") from error
    if writer is not pickle:
        with contextlib.suppress(Exception):  # of what multiprocessing sends in a way of its own
            args = writer.dumps(args, protocol=5)
    context = multiprocessing.get_context("spawn")
    folder = None
    place = options["init_method"]
    if not place:
        folder = tempfile.mkdtemp(prefix="unisono-spawn-")
        place = f"file://{folder}/meeting"
    ranks = []
    try:
        for local_rank in range(here):
            rank = first + local_rank
            init = {**options, "init_method": place, "rank": rank, "world_size": world_size, "local_rank": local_rank}
            ranks.append(Rank(context, rank, main, (os.getpid(), init, pickled, args), f"unisono rank {rank}"))
        failed = _children.watch(ranks)
    finally:
        _children.kill(ranks)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    if failed:
        raise_first(failed, ranks, "spawn")
    return [rank.answer[1] for rank in ranks]


def run_mpi(function, args, ranks, nodes, timeout):
    """The same with ranks that are one world of MPI: `unisono run` serves them as mpirun would. nodes: its options if there are several."""
    from ._function_job import FunctionJob, RankFailed

    job = FunctionJob("spawn", _call_in_mpi, (function, args, timeout), ranks, ["--backend", "mpi", "-n", str(len(ranks)), *nodes])
    try:
        results = job.join()
    except RankFailed as failed:
        ends = [_end_in_mpi(rank, failed) for rank in ranks]
        _raise(ends[failed.rank - ranks[0]], ends, "spawn")
    return [results[rank] for rank in ranks]


def _call_in_mpi(function, args, timeout):
    return _call(function, args, {"backend": "mpi", "timeout": timeout})


def _end_in_mpi(rank, failed):
    answer, is_first = failed.answers.get(rank), rank == failed.rank
    end = ProcessEnd(rank, failed=answer is None or not answer.went_well, is_consequence=not is_first and (answer is None or answer.is_consequence))
    if answer is not None and not answer.went_well:
        return end._replace(error=_loaded(answer.error), traceback=answer.traceback, exit_code=1)
    if answer is None and is_first:
        return end._replace(exit_code=None if failed.signal else failed.exit_code, signal=failed.signal)
    return end


def _loaded(error):
    try:
        return pickle.loads(error)
    except Exception as why:  # its class is known to the rank alone
        return RuntimeError(f"an exception that this process cannot read: {why}")


def raise_first(failed, ranks, operation):
    _raise(failed[0].end(), [rank.end() for rank in ranks], operation)


def _raise(first, ends, operation):
    others = sum(end.failed for end in ends) - 1
    text = f"rank {first.rank} {_how(first)}" + (f"; {others} more failed because of it or after it" if others else "")
    failure = refusal(operation, text, kind=LaunchFailed)
    failure.culprit, failure.ends = first.rank, ends
    if first.error is not None:
        first.error.__cause__ = RemoteTraceback(first.traceback)
    raise failure from first.error


def _how(end):
    if end.error is not None:
        return _ending.describe(end.error) or f"ended with {type(end.error).__name__}"
    if end.signal:
        return f"was ended by {end.signal}"
    return f"exited with {end.exit_code} before its function had returned"
