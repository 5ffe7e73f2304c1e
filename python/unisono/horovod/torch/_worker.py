"""The thread that makes the calls of one process set, and the handles by which a program waits for them."""

import itertools
import os
import threading
import time
import warnings

import torch
from torch import distributed

from . import _timeline
from ._execute import Executor, all_gather_single
from ._requests import Agreement, HorovodInternalError, InvalidCall, Request, encode

SLOT = 2048  # bytes of each rank in a round; longer announcements take a second exchange

_handles = {}
_handles_lock = threading.Lock()
_numbers = itertools.count()


class Worker:
    """Runs the rounds of a process set (see _requests) on a group of its own, and sleeps while this rank has nothing to do there."""

    def __init__(self, group, label):
        self.group, self.label = group, label
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        self.agreement = Agreement(self.size)
        self.executor = Executor(group)
        self.condition = threading.Condition()
        self.new, self.open = [], {}
        self.join_request = None
        self.failure = None
        self.counts = {}
        self.thread = threading.Thread(target=self._run, name=f"unisono.horovod {label}", daemon=True)
        self.thread.start()

    def submit(self, kind, name, request):
        """Hands over a request. ValueError where one of this name is not done yet."""
        with self.condition:
            self._check()
            if name is None:
                self.counts[kind] = self.counts.get(kind, 0) + 1
                name = f"{kind}.noname.{self.counts[kind]}"
            else:
                name = f"{kind}.{name}"
            if name in self.open:
                raise InvalidCall(f"{name} was called again before the first call of this name was done: give each its own name, or synchronize before")
            request.name, request.worker = name, self
            self.new.append(request)
            self.open[name] = request
            self.condition.notify()
        return request

    def join(self, request):
        with self.condition:
            self._check()
            self.join_request = request
            self.condition.notify()
        return request

    def missing(self, name):
        """The ranks in the job that have not called this name, as far as this rank knows."""
        calls, joined = self.agreement.calls.get(name, {self.rank: None}), self.agreement.joined
        return [distributed.get_global_rank(self.group, r) for r in range(self.size) if r not in calls and r not in joined]

    def stop(self):
        """Ends the thread. Requests that are not done fail."""
        with self.condition:
            idle = not self.open and self.join_request is None
            self._fail(HorovodInternalError("Horovod has been shut down"))
            self.condition.notify()
        if idle:
            self.thread.join(10)

    def _check(self):
        if self.failure is not None:
            raise HorovodInternalError(str(self.failure)) from self.failure

    def _fail(self, error):
        if self.failure is None:
            self.failure = error
        requests = [*self.open.values(), *([self.join_request] if self.join_request else [])]
        self.open, self.new, self.join_request = {}, [], None
        for request in requests:
            request.finish(error=error)

    def _run(self):
        torch.set_grad_enabled(False)
        while True:
            with self.condition:
                self.condition.wait_for(lambda: self.failure is not None or self.open or self.join_request is not None)
                if self.failure is not None:
                    return
                new, self.new = self.new, []
                joining = self.join_request is not None
            try:
                self._round(new, joining)
            except Exception as error:
                with self.condition:
                    self._fail(error)
                return

    def _round(self, new, joining):
        ready, last = self.agreement.round(self._exchange(encode(new, joining)))
        parts = []
        for name, calls, error in ready:
            with self.condition:
                request = self.open.get(name)
            if error is None:
                parts.append((request, calls))
            elif request is not None:
                self._finish(request, error=HorovodInternalError(error))
        for batch in self.executor.batches(parts):
            began = time.perf_counter()
            results = self.executor.execute(batch)
            for (request, _), result in zip(batch, results):
                if request is not None:
                    _timeline.record(request.name, request.call.kind, began, time.perf_counter())
                    self._finish(request, result)
        if last is not None:
            with self.condition:
                request, self.join_request = self.join_request, None
                self.counts = {}  # ranks that joined early have numbered fewer calls
            request.finish(last)

    def _finish(self, request, result=None, error=None):
        with self.condition:
            self.open.pop(request.name, None)
        if result is not None:
            result = request.given or result
            result = result[0] if request.single else result
        request.finish(result, error)

    def _exchange(self, announcement):
        """Every rank's announcement."""
        own = torch.zeros(SLOT, dtype=torch.uint8)
        length = len(announcement)
        own[:8] = torch.frombuffer(bytearray(length.to_bytes(8, "little")), dtype=torch.uint8)
        if length <= SLOT - 8:
            own[8 : 8 + length] = torch.frombuffer(bytearray(announcement), dtype=torch.uint8)
        every = self._all_gather(own)
        lengths = [int.from_bytes(bytes(row[:8].tolist()), "little") for row in every]
        if max(lengths) <= SLOT - 8:
            return [row[8 : 8 + n].numpy().tobytes() for row, n in zip(every, lengths)]
        own = torch.zeros(max(lengths), dtype=torch.uint8)
        own[:length] = torch.frombuffer(bytearray(announcement), dtype=torch.uint8)
        return [row[:n].numpy().tobytes() for row, n in zip(self._all_gather(own), lengths)]

    def _all_gather(self, own):
        every = torch.empty(self.size * own.numel(), dtype=torch.uint8)
        all_gather_single(every, own, self.group)
        return every.view(self.size, -1)


def handle_of(request):
    """The number by which poll and synchronize know this request."""
    with _handles_lock:
        handle = next(_numbers)
        _handles[handle] = request
    return handle


def poll(handle):
    """Whether the asynchronous call is done: synchronize would return at once. ValueError: no handle, or one that was synchronized."""
    with _handles_lock:
        if handle not in _handles:
            raise ValueError(f"{handle} is not a handle of an operation that is not synchronized")
        return _handles[handle].done.is_set()


def synchronize(handle):
    """Waits for an asynchronous call, and returns what it gives: a tensor, a list for the grouped forms, `(output, received_splits)` for alltoall with splits.

    A handle can be synchronized once; after that None is returned. HorovodInternalError: the call failed.
    """
    with _handles_lock:
        request = _handles.pop(handle, None)
    return None if request is None else wait(request)


def wait(request: Request):
    """The result of a request. A warning says who is missing where that takes long."""
    patience = float(os.environ.get("HOROVOD_STALL_CHECK_TIME_SECONDS", 60))
    if patience > 0 and not request.done.wait(patience) and request.worker is not None:
        missing = request.worker.missing(request.name)
        if missing:
            warnings.warn(f"{request.name} has waited {patience:g} s: rank {', '.join(map(str, missing))} has not called it", RuntimeWarning, stacklevel=3)
    request.done.wait()
    if request.error is not None:
        if isinstance(request.error, HorovodInternalError):
            raise HorovodInternalError(*request.error.args)
        raise HorovodInternalError(str(request.error)) from request.error
    return request.result
