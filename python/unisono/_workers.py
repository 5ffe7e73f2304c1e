"""Processes that a controller starts as its workers."""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import shutil
import signal
import tempfile

from . import _children, _core, _processes, _serving
from ._context import initialize


def _main(connection, *args):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the controller, which ends its workers
    connection.send_bytes(b"started")
    _processes.main(connection, *args)


class _Worker(_processes.Rank):
    """A worker that says when its interpreter has imported the program."""

    has_started = False

    def listen(self):
        if not self.has_started and self.connection and self.connection.poll():
            try:
                self.connection.recv_bytes()
                self.has_started = True
            except EOFError:
                self.connection.close()
                self.connection = None
        super().listen()


class Started:
    """Workers that were started here. This process is rank 0 of their job, and has joined it when they are made."""

    def __init__(self, count, backend, timeout, most_in_flight):
        _children.check("Controller")
        self._folder = tempfile.mkdtemp(prefix="unisono-controller-")
        self._size = count + 1
        self._init = {"backend": backend, "timeout": timeout, "init_method": f"file://{self._folder}/meeting", "world_size": self._size}
        self._args = (backend, timeout, most_in_flight)
        self._workers = []
        try:
            for rank in range(1, self._size):
                self._workers.append(self._start(rank))
            self._wait_for_start()
            initialize(**self._init, rank=0, local_rank=0)
        except BaseException:
            self.end(0)
            raise

    def _start(self, rank):
        init = {**self._init, "rank": rank, "local_rank": rank}
        function = pickle.dumps(_serving.serve, protocol=5)
        context = multiprocessing.get_context("spawn")
        return _Worker(context, rank, _main, (os.getpid(), init, function, self._args), f"unisono worker {rank - 1}")

    def _wait_for_start(self):
        while left := [worker for worker in self._workers if not worker.has_started]:
            multiprocessing.connection.wait([place for place in (worker.waits_for() for worker in left) if place is not None])
            for worker in left:
                worker.listen()
            if failed := [worker for worker in self._workers if worker.failed]:
                _processes.raise_first(failed, self._workers, "Controller")

    def end(self, grace):
        """Waits so many seconds for them to end, and ends them."""
        try:
            _children.end(self._workers, grace)
        finally:
            _children.kill(self._workers)
            _core.finalize()
            shutil.rmtree(self._folder, ignore_errors=True)
