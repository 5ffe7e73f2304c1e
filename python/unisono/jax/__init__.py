"""unisono.jax: the collectives of unisono within jax.jit, between processes.

    import jax, unisono
    import unisono.jax as ujax

    @jax.jit
    def step(weights, x, y):
        gradients = jax.grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, ujax.all_reduce(gradients, "avg"))

    with unisono.Context():
        ...

The functions take arrays of the CPU, or trees of them (a call for each leaf), and return new ones; within jit, grad, vmap and scan, and outside. Calls happen
in the order in which they are traced, which is the same on all ranks. `group`, ranks, `op`, `timeout` and `tag` are known when a function is traced.
"""

from __future__ import annotations

from typing import Any

from ._versions import jax  # isort: skip
import jax.numpy as jnp

from .._core import GlobalRank, ProcessGroup, ReduceOp
from .._types import Seconds
from . import _arguments, _transformations
from ._arguments import array, bind, call, member, reduction, refuse
from ._call import call_p
from ._errors import error_of, forget_errors, library_errors

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "error_of", "forget_errors", "library_errors", "reduce", "reduce_scatter",
    "send_recv",
]  # fmt: skip


def _in_blocks(x, ranks, operation):
    if x.ndim == 0 or x.shape[0] % ranks != 0:
        refuse(operation, f"the first axis has {x.shape[0] if x.ndim else 1} rows, which {ranks} ranks cannot share evenly")
    return x.reshape((ranks, x.shape[0] // ranks, *x.shape[1:]))


def _collective(operation, x, group, timeout, tag, op=None, in_blocks=False, **more):
    """The same call for each leaf of a tree."""
    made = call(operation, group, timeout, tag, **more)

    def one(leaf):
        leaf = array(leaf, operation)
        how = made.but(op=reduction(op, leaf, operation)) if "reduce" in operation else made
        return bind(_in_blocks(leaf, how.ranks, operation) if in_blocks else leaf, how)

    return jax.tree.map(one, x)


def all_reduce(x: Any, op: ReduceOp | str = "sum", group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0) -> Any:
    """The combination of all ranks' arrays, element by element, on every rank: with the same bits on all of them.

    x: of one shape and dtype on all ranks. op: "sum", "avg", "min", "max", "product", "band", … or a ReduceOp. Derivative of sum and avg: the same
    all_reduce of the cotangents. InvalidArgument, when traced, where op has no meaning for the dtype.

        gradients = ujax.all_reduce(gradients, "avg")
    """
    return _collective("all_reduce", x, group, timeout, tag, op)


def reduce(
    x: Any, dst: int | GlobalRank = 0, op: ReduceOp | str = "sum", group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0
) -> Any:
    """The combination of all ranks' arrays on rank `dst`; zeros on every other rank.

    Shapes and operations as in all_reduce. Derivative of sum and avg: broadcast from `dst`.

        total = ujax.reduce(loss)
    """
    return _collective("reduce", x, group, timeout, tag, op, root=member(dst, group, "dst", "reduce"))


def broadcast(x: Any, src: int | GlobalRank = 0, group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0) -> Any:
    """The array of rank `src` on every rank. The other ranks give one of the same shape and dtype, whose elements do not count.

    Derivative: reduce to `src`, zeros on the other ranks.

        weights = ujax.broadcast(weights)
    """
    return _collective("broadcast", x, group, timeout, tag, root=member(src, group, "src", "broadcast"))


def all_gather(x: Any, group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0) -> Any:
    """The arrays of all ranks on every rank, on a new first axis: of shape (size, *x.shape), row r from rank r.

    x: of one shape and dtype on all ranks. Derivative: reduce_scatter.

        everybody = ujax.all_gather(mine)               # everybody[r] is rank r's
    """
    return _collective("all_gather", x, group, timeout, tag)


def reduce_scatter(x: Any, op: ReduceOp | str = "sum", group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0) -> Any:
    """This rank's block of the combination of all ranks' arrays: rows r * n to (r + 1) * n of it on rank r, where x has size * n rows.

    x: of one shape and dtype on all ranks; its first axis is a multiple of size long. Derivative of sum and avg: all_gather.

        mine = ujax.reduce_scatter(everything)          # of shape (len(everything) // size, …)
    """
    return _collective("reduce_scatter", x, group, timeout, tag, op, in_blocks=True)


def all_to_all(x: Any, group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0) -> Any:
    """Block q of rank r becomes block r of rank q, where a block is size-th part of the rows. The result has the shape of x.

    x: of one shape and dtype on all ranks; its first axis is a multiple of size long. Derivative: all_to_all.

        columns = ujax.all_to_all(rows)
    """
    return jax.tree.map(lambda y, leaf: y.reshape(jnp.asarray(leaf).shape), _collective("all_to_all", x, group, timeout, tag, in_blocks=True), x)


def send_recv(
    x: Any,
    dst: int | GlobalRank | None,
    src: int | GlobalRank | None,
    like: Any = None,
    group: ProcessGroup | None = None,
    *,
    timeout: Seconds = None,
    tag: int = 0,
) -> Any:
    """Sends x to rank `dst`, and returns what rank `src` has sent to this one, at the same time.

    dst None: nothing is sent. src None: nothing comes, and the result is zeros. A rank that is its own dst and src gets x. like: an array, or a
    jax.ShapeDtypeStruct, of the shape and dtype of what comes; those of x unless given. A message of another length or dtype is a Mismatch of its
    receiver. Derivative: send_recv the other way round. For that x has to depend, on every rank, on what is differentiated by.

        left = ujax.send_recv(x, (rank + 1) % size, (rank - 1) % size)
    """

    to, back = (-1 if rank is None else member(rank, group, what, "send_recv") for rank, what in ((dst, "dst"), (src, "src")))
    exchanging = call("send_recv", group, timeout, tag, dst=to, src=back)

    def one(leaf, expected):
        leaf = array(leaf, "send_recv")
        if not hasattr(expected, "dtype"):
            expected = array(leaf if expected is None else expected, "send_recv")
        if str(expected.dtype) not in _arguments.DTYPES:
            refuse("send_recv", f"arrays of {expected.dtype} do not travel")
        return bind(leaf, exchanging.but(received=(tuple(expected.shape), expected.dtype)))

    return jax.tree.map(lambda leaf: one(leaf, None), x) if like is None else jax.tree.map(one, x, like)


def barrier(group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0) -> None:
    """Goes on when every rank has come here: in its place among the calls of this rank, also within jit.

    ujax.barrier()
    """
    call_p.bind(call=call("barrier", group, timeout, tag))
