"""Functions that run in the ranks of a job of `unisono run`, which starts, watches and ends them. Their results come back in files.

The files lie in a folder that this user alone can read: on this host, or in the working folder where the job has other hosts, which must share it.
"""

import atexit
import concurrent.futures
import ctypes
import multiprocessing.spawn
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from typing import NamedTuple

from . import _children, _paths
from ._errors import InvalidArgument

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROGRAM = f"import sys; sys.path.insert(0, {_ROOT!r}); from unisono._function_job import main; main(sys.argv[1])"
_CONSEQUENCES = ("PeerFailed", "DistBackendError", "HorovodInternalError")  # of a rank that has only lost another one


class Answer(NamedTuple):
    """The outcome of a rank's function."""

    went_well: bool
    result: object = None
    traceback: str = ""
    is_consequence: bool = False
    at: float = 0.0  # seconds of the host's monotonic clock
    error: bytes = b""  # a pickle of what the function raised


class RankFailed(Exception):
    """The rank that failed first: `rank`, `traceback` ("" where it left none), and the `exit_code` of `unisono run`, which is 128 + N after signal N.
    `answers`: the Answer of each rank that left one, by rank."""

    def __init__(self, rank, traceback, exit_code, answers):
        self.rank, self.traceback, self.exit_code, self.answers = rank, traceback, exit_code, answers
        self.signal = signal.Signals(exit_code - 128).name if 128 < exit_code < 128 + signal.NSIG else None
        how = f"signal {self.signal}" if self.signal else f"exit code {exit_code}"
        super().__init__(f"rank {rank} ended with the following error:\n{traceback}" if traceback else f"rank {rank} terminated with {how}")


class FunctionJob:
    """Ranks that call function(*args); `ranks` are those of this node. `options` are of `unisono run`, before the program.

    on_hosts: whether other hosts take part. InvalidArgument for a function that cannot be sent to other processes.
    """

    def __init__(self, operation, function, args, ranks, options, *, executable=None, on_hosts=False):
        self.ranks = ranks
        data = _pickled(operation, (function, args))
        self.folder = tempfile.mkdtemp(prefix="unisono-", dir=os.getcwd() if on_hosts else None)
        try:
            with open(os.path.join(self.folder, "function"), "wb") as file:
                pickle.dump((_preparation(), data), file)
            command = [_paths.command(), "run", *options, "--", executable or sys.executable, "-c", _PROGRAM, self.folder]
            # As processes of multiprocessing: the end of the program waits for them, and its death ends them.
            self.process, self._parent = _started(command), os.getpid()
            atexit.register(self._end_with_program)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def join(self):
        """Waits, and returns {rank: what its function returned} of those that returned. Raises RankFailed where the job did not end well."""
        try:
            code = self.process.wait()
            answers = self._answers()
        finally:
            self.end()
        if code != 0:
            failed = [(answer.is_consequence, answer.at, rank, answer.traceback) for rank, answer in answers.items() if not answer.went_well]
            # One that left nothing was ended by a signal, or has ended itself, and the others lost it.
            failed += [(False, float("inf"), rank, "") for rank in self.ranks if rank not in answers]
            raise RankFailed(*min(failed, default=(0, 0, self.ranks[0], ""))[2:], code, answers)
        return {rank: answer.result for rank, answer in sorted(answers.items()) if answer.went_well}

    def end(self):
        """Ends what still runs, and removes the files."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        atexit.unregister(self._end_with_program)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end_with_program(self):
        if os.getpid() == self._parent:  # and not a process that was forked from it
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self):
        answers = {}
        for name in os.listdir(self.folder):
            if name.isdigit():
                with open(os.path.join(self.folder, name), "rb") as file:
                    answers[int(name)] = pickle.load(file)
        return answers


_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def _started(command):
    # By a thread that lives as long as the process: the system ends a process with the thread that has forked it.
    outcome = concurrent.futures.Future()

    def start_and_wait():
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent)
        except BaseException as error:
            outcome.set_exception(error)
            return
        outcome.set_result(process)
        process.wait()

    threading.Thread(target=start_and_wait, name="unisono run", daemon=True).start()
    return outcome.result()


def _end_with_parent():
    # Between fork and exec.
    if _prctl is not None:
        _prctl(1, signal.SIGTERM)


def nodes_of(nnodes, node_rank, host, port):
    """The options of `unisono run` for one of several nodes, whose launchers meet at host:port."""
    if nnodes == 1:
        return []
    return ["--nnodes", str(nnodes), "--node-rank", str(node_rank), "--master-addr", host, "--master-port", str(port)]


def _pickled(operation, value):
    try:
        import cloudpickle as module
    except ImportError:
        module = _children.writer(operation, *value)
    try:
        return module.dumps(value)
    except Exception as error:
        raise InvalidArgument(f"{operation}: the function cannot be sent to other processes, as one of a module can: {error}") from error


def _preparation():
    # As for a process of multiprocessing: sys.path, the working folder, and the main module, which is imported under another name.
    with _children.without_unreadable_main():
        data = multiprocessing.spawn.get_preparation_data("rank")
    data["authkey"] = bytes(data["authkey"])
    return data


def main(folder):
    """A rank, from its beginning to its end."""
    rank = int(os.environ["RANK"])
    try:
        with open(os.path.join(folder, "function"), "rb") as file:
            preparation, data = pickle.load(file)
    except OSError as error:
        raise SystemExit(f"unisono: the function that this rank is to run cannot be read: {error}; all hosts of a job must share its working folder")
    try:
        multiprocessing.spawn.prepare(preparation)
        function, args = _children.loads("run", data)
        answer = Answer(True, function(*args))
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code:
            is_consequence = isinstance(error, ConnectionError) or any(kind.__name__ in _CONSEQUENCES for kind in type(error).__mro__)
            portable = _children.answerer().dumps(_children.portable(error), protocol=5)
            _leave(folder, rank, Answer(False, None, traceback.format_exc(), is_consequence, time.monotonic(), portable))
        raise
    _leave(folder, rank, answer)


def _leave(folder, rank, answer):
    try:
        data = _children.answerer().dumps(answer, protocol=5)
    except Exception as error:
        warnings.warn(f"the result of the function cannot be sent to the process that started this one, which gets None: {error}", stacklevel=2)
        data = pickle.dumps(answer._replace(result=None), protocol=5)
    unfinished = os.path.join(folder, f"{rank}.part")
    with open(unfinished, "wb") as file:
        file.write(data)
    os.replace(unfinished, os.path.join(folder, str(rank)))
