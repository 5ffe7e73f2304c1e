"""Tensors on the workers of a controller: PyTorch's device "remote:2" is worker 2, and torch.remote is this module.

    with unisono.Controller(workers=3) as workers:
        x = torch.ones(3, device="remote:2")        # or workers[2].tensor(torch.ones(3))
        y = (x * 2).relu()                          # computed there; returns before it is done
        print(y.cpu())                              # fetched
        model = torch.nn.Linear(3, 3).to("remote:2")

Every operator of PyTorch works, and so do modules, autograd, optimizers and torch.save. All tensors of an operator are on one worker, except numbers;
to() moves them. Shapes and dtypes are known at once. Only what depends on elements waits for the worker: cpu(), item(), nonzero(), masks as indices.

An operator that fails on the worker raises RuntimeError in the next call that waits for that worker, with the operator and the shapes.
"""

import contextlib

import torch

from .. import _serving
from .._errors import refusal

_ops = torch.ops.unisono


def _number(device):
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "remote":
        raise refusal("remote", f"{device} is no worker")
    return current_device() if device.index is None else device.index


def is_available():
    """True while there is a controller."""
    return device_count() > 0


def device_count():
    """The number of workers; 0 without a controller."""
    return _ops.remote_device_count() if _serving.current() is not None else 0


def current_device():
    """The number of the worker that "remote" without a number stands for in this thread."""
    return _ops.remote_current_device()


def set_device(device):
    """Makes a worker the current one of this thread."""
    _ops.remote_set_device(_number(device))


@contextlib.contextmanager
def device(device):
    """Makes a worker the current one within a scope: with torch.remote.device(2)."""
    before = current_device()
    set_device(device)
    try:
        yield
    finally:
        if before < device_count():
            set_device(before)


def synchronize(device=None):
    """Waits until the worker has run everything. Raises RuntimeError if an operator has failed there."""
    _ops.remote_synchronize(_number(device))


def manual_seed(seed):
    """Seeds the current worker's default generator, which is that of its own functions, too."""
    _ops.remote_seed(current_device(), int(seed))


def manual_seed_all(seed):
    """Seeds every worker's default generator with this number. torch.manual_seed does it."""
    for worker in range(device_count()):
        _ops.remote_seed(worker, int(seed))


def get_rng_state(device=None):
    """The state of a worker's default generator: a tensor of bytes."""
    return _ops.remote_get_state(_number(device))


def set_rng_state(state, device=None):
    """Sets the state of a worker's default generator."""
    _ops.remote_set_state(_number(device), state)


def get_amp_supported_dtype():
    """The dtypes of torch.autocast("remote")."""
    return [torch.bfloat16, torch.float16]


def _is_in_bad_fork():  # PyTorch asks
    return False


class Tensors(tuple):
    """A tensor on each worker, in their order, as one. Collectives run among the workers, on the tensors there, and return before they are done.

    Those of a collective must be one on each of workers 0 to n - 1: RuntimeError otherwise.
    """

    __slots__ = ()

    def cpu(self):
        """Copies on the cpu."""
        return [tensor.cpu() for tensor in self]

    def all_reduce(self, op="sum"):
        """Replaces each tensor by the combination of all: sum, avg, prod, min, max, band, bor, bxor. Returns self."""
        self._run("all_reduce", op)
        return self

    def reduce(self, dst, op="sum"):
        """Replaces the tensor of worker dst by the combination of all. Returns self."""
        self._run("reduce", op, dst)
        return self

    def broadcast(self, src=0):
        """Replaces each tensor by that of worker src. Returns self."""
        self._run("broadcast", root=src)
        return self

    def all_gather(self):
        """On each worker all tensors, stacked: shape (n, …)."""
        return self._run("all_gather")

    def reduce_scatter(self, op="sum"):
        """Combines tensors of shape (n, …), and returns row i of that on worker i."""
        return self._run("reduce_scatter", op)

    def all_to_all(self):
        """On worker i the rows i of all workers' tensors of shape (n, …)."""
        return self._run("all_to_all")

    def _run(self, name, op="sum", root=0):
        return Tensors(_ops.remote_collective(name, list(self), op, root))
