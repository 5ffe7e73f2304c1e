"""Processes that are ranks of a job: started, watched, and asked for their results."""

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import pickle
import shutil
import signal
import tempfile
import time
import traceback

from . import _core, _ending, _new_process
from ._errors import InvalidArgument, LaunchFailed, PeerFailed, ProcessEnd

GRACE = 15  # seconds that the others have after the first failure, and before SIGKILL


class RemoteTraceback(Exception):
    """Where in its own process an exception was raised."""

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


def _main(connection, parent, init, local_rank, function, args):
    # The function comes as bytes: what goes wrong with it is this rank's failure.
    _end_with(parent)
    from . import initialize

    try:
        function = _new_process.loads("spawn", function)
        initialize(**init)
        try:
            result = function(local_rank, *args)
        except BaseException as error:
            _core._leave_because(_ending.describe(error) or "left its scope")
            raise
        _core.finalize()
        answer = pickle.dumps((True, result, ""), protocol=5)
    except BaseException as error:
        if isinstance(error, SystemExit) and not error.code:
            error = RuntimeError("it left by sys.exit before its function had returned")
        text = traceback.format_exc()
        try:
            answer = pickle.dumps((False, error, text), protocol=5)
            pickle.loads(answer)
        except Exception:
            answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}"), text), protocol=5)
    connection.send_bytes(answer)
    connection.close()
    # Its exit code says what became of it, and nothing that it has left behind changes that.
    raise SystemExit(0 if pickle.loads(answer)[0] else 1)


class _Rank:
    def __init__(self, number, process, connection):
        self.number, self.process, self.connection = number, process, connection
        self.answer, self.failed_at, self.ended_by_us = None, None, False

    def listen(self):
        try:
            self.answer = pickle.loads(self.connection.recv_bytes())
        except EOFError:
            pass
        self.connection.close()
        self.connection = None

    @property
    def failed(self):
        if self.answer is not None:
            return not self.answer[0]
        return self.process.exitcode is not None

    @property
    def is_consequence(self):
        return self.ended_by_us or (self.answer is not None and isinstance(self.answer[1], PeerFailed))

    def end(self):
        code = self.process.exitcode
        error = self.answer[1] if self.answer is not None and not self.answer[0] else None
        return ProcessEnd(
            rank=self.number,
            exit_code=code if code is None or code >= 0 else None,
            signal=signal.Signals(-code).name if code is not None and code < 0 else None,
            error=error,
            traceback=self.answer[2] if error is not None else "",
            failed=self.failed,
            is_consequence=self.failed and self.is_consequence,
        )

    def how(self):
        end = self.end()
        if end.error is not None:
            return _ending.describe(end.error) or f"ended with {type(end.error).__name__}"
        if end.signal:
            return f"was ended by {end.signal}"
        return f"exited with {end.exit_code} before its function had returned"


def _watch(ranks):
    """Returns when all have ended. After the first failure the others have GRACE seconds, then SIGTERM, and as long again, then SIGKILL."""
    deadline, steps = None, [signal.SIGTERM, signal.SIGKILL]
    # A process is asked once whether it has ended: between two questions it may.
    while waiting := [rank.connection or rank.process.sentinel for rank in ranks if rank.connection or rank.process.exitcode is None]:
        left = None if deadline is None else max(0, deadline - time.monotonic())
        multiprocessing.connection.wait(waiting, left)
        for rank in ranks:
            if rank.connection and rank.connection.poll():
                rank.listen()
            rank.process.join(0)
            if rank.failed and rank.failed_at is None:
                rank.failed_at = time.monotonic()
                if deadline is None:
                    deadline = rank.failed_at + GRACE
        if deadline is not None and time.monotonic() >= deadline and steps:
            step = steps.pop(0)
            deadline = time.monotonic() + GRACE
            for rank in ranks:
                if rank.process.exitcode is None:
                    rank.ended_by_us = True
                    os.kill(rank.process.pid, step)


def run(function, args, here, world_size, first, options):
    _new_process.check("spawn", function, args)
    try:
        pickled = pickle.dumps(function, protocol=5)
    except Exception as error:
        raise InvalidArgument(f"spawn: the function cannot be sent to other processes, as one of a module can: {error}") from error
    context = multiprocessing.get_context("spawn")
    folder = None
    place = options["init_method"]
    if not place:
        folder = tempfile.mkdtemp(prefix="unisono-spawn-")
        place = f"file://{folder}/meeting"
    ranks = []
    try:
        for local_rank in range(here):
            ours, theirs = context.Pipe(duplex=False)
            init = {
                "backend": options["backend"],
                "init_method": place,
                "rank": first + local_rank,
                "world_size": world_size,
                "local_rank": local_rank,
                "timeout": options["timeout"],
            }
            process = context.Process(
                target=_main, args=(theirs, os.getpid(), init, local_rank, pickled, args), name=f"unisono rank {first + local_rank}"
            )
            process.start()
            theirs.close()
            ranks.append(_Rank(first + local_rank, process, ours))
        _watch(ranks)
    finally:
        for rank in ranks:  # where the caller is interrupted
            if rank.process.exitcode is None:
                rank.process.kill()
                rank.process.join()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    failed = sorted((rank for rank in ranks if rank.failed), key=lambda rank: (rank.is_consequence, rank.failed_at))
    if not failed:
        return [rank.answer[1] for rank in ranks]
    cause = failed[0]
    others = len(failed) - 1
    text = f"rank {cause.number} {cause.how()}" + (f"; {others} more failed because of it or after it" if others else "")
    failure = LaunchFailed(f"spawn: {text}")
    failure.operation, failure.message, failure.culprit = "spawn", text, cause.number
    failure.ends = [rank.end() for rank in ranks]
    origin = cause.end()
    if origin.error is not None:
        origin.error.__cause__ = RemoteTraceback(origin.traceback)
    raise failure from origin.error
