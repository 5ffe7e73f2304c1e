"""From the arguments of the functions to a Call. Wrong arguments raise when a function is traced, before anything is sent."""

from __future__ import annotations

import datetime
import os

import jax
import jax.numpy as jnp

from .. import _core
from .._core import GlobalRank, PremulSum, ProcessGroup, ReduceOp
from .._errors import InvalidArgument, Unsupported, refusal
from ._call import Call, call_p

DTYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128".split()
)
_core._leave_out(os.path.dirname(os.path.abspath(jax.__file__)) + os.sep, is_ours=True)
_BITWISE = {ReduceOp.band, ReduceOp.bor, ReduceOp.bxor}


def refuse(operation, what, kind=InvalidArgument):
    raise refusal(operation, what, kind=kind)


def undefined(dtype):
    """The operations that have no meaning for the dtype."""
    if dtype == jnp.bool_:
        return {ReduceOp.avg}
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return {ReduceOp.min, ReduceOp.max, ReduceOp.land, ReduceOp.lor} | _BITWISE
    return _BITWISE if jnp.issubdtype(dtype, jnp.floating) else set()


def array(x, operation):
    """The argument as an array of a dtype that travels."""
    x = jnp.asarray(x)
    if str(x.dtype) not in DTYPES:
        hint = "jax.random.key_data(x) has its integers" if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else "convert it with x.astype"
        refuse(operation, f"arrays of {x.dtype} do not travel ({hint})")
    return x


def reduction(op, x, operation):
    """The number of a ReduceOp, or of its name."""
    if isinstance(op, PremulSum) or callable(op) and not isinstance(op, ReduceOp):
        refuse(operation, "within JAX the operation is a ReduceOp or its name", Unsupported)
    known = op if isinstance(op, ReduceOp) else _core.parse_reduce_op(op)
    if known in undefined(x.dtype):
        refuse(operation, f"{known.name} is not defined on {x.dtype}")
    return known.value


def member(rank, group, what, operation):
    """A rank of the group, given as that or as a GlobalRank."""
    group = group or _core.world()
    number = group.rank_of(rank) if isinstance(rank, GlobalRank) else rank
    if not isinstance(number, int) or isinstance(number, bool):
        refuse(operation, f"{what} is {rank!r}, and ranks are integers that are known when the function is traced")
    if not 0 <= number < group.size():
        refuse(operation, f"{what} is {number} in a group of {group.size()}")
    return number


def _milliseconds(timeout, operation):
    if timeout is None:
        return -1
    seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
    if not isinstance(seconds, (int, float)) or not 0 < seconds < 1e12:
        refuse(operation, f"the timeout is {timeout!r}, and it is a positive number of seconds")
    return max(1, round(seconds * 1000))


def call(operation, group, timeout, tag, **more):
    """The call that the line of the program that called us makes."""
    if _core._is_rank_thread():
        refuse(operation, "the ranks of run_threads share one JAX, which cannot tell them apart (start processes: unisono run, or spawn)", Unsupported)
    if group is not None and not isinstance(group, ProcessGroup):
        refuse(operation, f"the group is {group!r}, and it is a ProcessGroup or None")
    if not isinstance(tag, int):
        refuse(operation, f"the tag is {tag!r}, and it is an integer")
    ranks = (group or _core.world()).size()
    return Call(operation, ranks, group, timeout=_milliseconds(timeout, operation), tag=tag, where=_core._line_of_program(), **more)


def bind(x, call):
    (result,) = call_p.bind(x, call=call)
    return result
