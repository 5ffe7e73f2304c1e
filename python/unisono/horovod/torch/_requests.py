"""The requests of ranks, and when they can be done.

Ranks may call in different orders, and some may have joined, which is why a call is known by its name. The ranks of a process set agree in rounds. In
each round every rank announces its new requests, and all ranks see all announcements. So all find the same requests ready, in the same order. A rank
takes part in a round while it has a request that is not done. A request that every rank makes is therefore announced by all within finitely many
rounds.
"""

import dataclasses
import json
import math
import threading

import torch

Average, Sum, Adasum, Min, Max, Product = range(6)
OPERATIONS = ("Average", "Sum", "Adasum", "Min", "Max", "Product")


class HorovodInternalError(RuntimeError):
    """A collective failed: a rank was lost, or the ranks called the same name with different arguments. The latter leaves the process set usable."""


class InvalidCall(HorovodInternalError, ValueError):
    """A call that cannot be made, refused before anything is sent: Horovod raises HorovodInternalError, a RuntimeError, for some of them, and ValueError for
    others, by the function that meets it first."""


@dataclasses.dataclass
class Call:
    """The values on which the ranks must agree, and the shapes that may differ."""

    kind: str  # allreduce, allgather, broadcast, alltoall, reducescatter, barrier
    dtypes: list = dataclasses.field(default_factory=list)  # a name for each tensor
    shapes: list = dataclasses.field(default_factory=list)
    op: int = Sum
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = -1  # within the process set
    splits: list | None = None  # of alltoall: rows for each rank
    device: str = "cpu"

    def encoded(self):
        return list(dataclasses.astuple(self))


@dataclasses.dataclass
class Request:
    """A call of this rank, with its tensors. `result` and `error` are there when `done` is set."""

    name: str
    call: Call
    tensors: list
    outputs: list
    single: bool = True  # whether the result is a tensor, and no list of them
    given: list | None = None  # the caller's tensors, where the result goes into them
    splits: object = None  # of alltoall, as the caller gave them
    worker: object = None  # to which it was handed
    cuda_event: object = None
    result: object = None
    error: Exception | None = None
    done: threading.Event = dataclasses.field(default_factory=threading.Event)

    def finish(self, result=None, error=None):
        self.result, self.error = result, error
        self.tensors = self.outputs = ()
        self.done.set()


def encode(requests, joining):
    return json.dumps([[[request.name, request.call.encoded()] for request in requests], joining]).encode()


class Agreement:
    """The requests that all ranks of a process set know of each other. It changes by rounds only, and is equal on all of them."""

    def __init__(self, size):
        self.size = size
        self.calls = {}  # name -> {rank: Call}
        self.joined = []  # in the order in which they joined

    def round(self, announcements):
        """Takes in what each rank announced. Returns what is ready: [(name, {rank: Call}, error or None)], and the last rank where all have joined."""
        for rank, announcement in enumerate(announcements):
            requests, joining = json.loads(announcement)
            for name, call in requests:
                self.calls.setdefault(name, {})[rank] = Call(*call)
            if joining and rank not in self.joined:
                self.joined.append(rank)
        ready = [name for name, calls in self.calls.items() if all(rank in calls or rank in self.joined for rank in range(self.size))]
        ready = [(name, calls := self.calls.pop(name), self.error(name, calls)) for name in ready]
        last = None
        if len(self.joined) == self.size:
            last, self.joined = self.joined[-1], []
        return ready, last

    def error(self, name, calls):
        """Why these calls do not fit together, or None."""
        first, *others = calls
        for other in others:
            for what, value in _must_agree(calls[first]).items():
                theirs = _must_agree(calls[other])[what]
                if value != theirs:
                    return f"{name}: the ranks called different things: {what} is {value} on rank {first} and {theirs} on rank {other}"
        call = calls[first]
        absent = [rank for rank in range(self.size) if rank not in calls]
        if absent and call.kind not in ("allreduce", "barrier"):
            return f"{name}: {call.kind} is not possible after rank {absent[0]} has joined, whose part would be missing; allreduce and barrier are"
        return None


def _must_agree(call):
    rows_differ = call.kind in ("allgather", "alltoall")
    return {
        "the operation": call.kind,
        "the dtypes": call.dtypes,
        "the shape": [["…", *shape[1:]] if rows_differ else shape for shape in call.shapes],
        "op": OPERATIONS[call.op],
        "prescale_factor": call.prescale,
        "postscale_factor": call.postscale,
        "root_rank": call.root,
        "the device": call.device,
    }


def dtype_of(name):
    return getattr(torch, name)


def elements(call):
    return sum(math.prod(shape) for shape in call.shapes)
