"""Derivatives, and vmap.

Together the ranks compute one linear function of all ranks' arrays. Its transpose is what `grad` calls: the derivative of the sum of all ranks' results
by this rank's array.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.interpreters import ad, batching

from .._core import ReduceOp
from .._errors import Unsupported, refusal
from ._call import call_p

_REDUCTIONS = ("all_reduce", "reduce", "reduce_scatter")
_SUM, _AVG = ReduceOp.sum.value, ReduceOp.avg.value


def _jvp(arrays, tangents, *, call):
    if call.operation in _REDUCTIONS and call.op not in (_SUM, _AVG):
        hint = "sum and avg have one; jax.lax.stop_gradient on what goes in leaves it out"
        raise refusal(call.operation, f"there is no derivative of {ReduceOp(call.op).name}", hint, Unsupported)
    (x,), (tangent,) = arrays, tangents
    if call.operation == "send_recv" and call.received[1] != x.dtype:
        what = f"there is a derivative only if both ways have one dtype, and {x.dtype} is sent, {call.received[1]} received"
        raise refusal(call.operation, what, kind=Unsupported)
    results = call_p.bind(x, call=call)
    if type(tangent) is ad.Zero:
        return results, [ad.Zero.from_primal_value(y) for y in results]
    return results, call_p.bind(tangent, call=call)


def _transposed(call, x):
    """The call that gives the derivative by x, and a factor."""
    share = 1 / call.ranks if call.op == _AVG and call.operation in ("reduce", "reduce_scatter") else 1
    other = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather", "broadcast": "reduce", "reduce": "broadcast"}.get(call.operation)
    if other is not None:
        return call.but(operation=other, op=_SUM), share
    if call.operation == "send_recv":
        return call.but(dst=call.src, src=call.dst, received=(x.aval.shape, x.aval.dtype)), 1
    return call, 1  # all_reduce and all_to_all are their own


def _transpose(cotangents, x, *, call):
    # Zeros are sent as well: whether a rank's result matters to it is not the same on all ranks.
    cotangent = ad.instantiate_zeros(cotangents[0])
    transposed, factor = _transposed(call, x)
    (result,) = call_p.bind(cotangent, call=transposed)
    return [result if factor == 1 else result * jnp.asarray(factor, result.dtype)]


def _batch(arrays, axes, *, call):
    """One call for the whole batch."""
    (x,), (axis,) = arrays, axes
    to = {"all_gather": (0, 1), "reduce_scatter": (1, 0), "all_to_all": (1, 1), "send_recv": (0, 0)}.get(call.operation, (axis, axis))
    if call.operation == "send_recv":
        shape, dtype = call.received
        call = call.but(received=((x.shape[axis], *shape), dtype))
    return call_p.bind(jnp.moveaxis(x, axis, to[0]), call=call), [to[1]]


ad.primitive_jvps[call_p] = _jvp
ad.primitive_transposes[call_p] = _transpose
batching.primitive_batchers[call_p] = _batch
