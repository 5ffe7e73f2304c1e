"""The primitive of all operations, and the custom call of XLA that it becomes.

Every call has the same ordered effect. JAX hands a token from each call to the next one, within a compiled function, through its loops and branches,
and from function to function. So the calls of a rank happen in the order in which the program was traced, which is the same on all ranks.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from .. import _core
from .._errors import Unsupported, refusal
from . import _versions

TARGET = "unisono"
jax.ffi.register_ffi_target(TARGET, _core._xla_handler(), platform="cpu")
_core._end_waits_on_interrupt()


@dataclasses.dataclass(frozen=True)
class Call:
    """An operation and its parameters, all of which are known when it is traced."""

    operation: str
    ranks: int  # of the group, or of the world
    group: Any = None  # None: the world, whichever it is when the call is made
    op: int = 0
    root: int = -1
    dst: int = -1
    src: int = -1
    tag: int = 0
    timeout: int = -1  # in milliseconds
    where: str = ""  # "/home/me/train.py:12"
    received: Any = None  # of send_recv: shape and dtype of what comes

    def result(self, x):
        """Shape and dtype of what comes out. The blocks of the ranks lie on the first axis of what goes into reduce_scatter and all_to_all."""
        if self.operation == "all_gather":
            return (self.ranks, *x.shape), x.dtype
        if self.operation == "reduce_scatter":
            return x.shape[1:], x.dtype
        return self.received if self.operation == "send_recv" else (x.shape, x.dtype)

    def but(self, **changes):
        return dataclasses.replace(self, **changes)

    def attributes(self):
        numbers = {name: getattr(self, name) for name in ("ranks", "op", "root", "dst", "src", "tag", "timeout")}
        numbers["group"] = _core._xla_group(self.group) if self.group is not None else 0
        texts = {"operation": self.operation, "where": self.where, "members": self.group.name() if self.group is not None else ""}
        return {name: np.int64(number) for name, number in numbers.items()} | texts


class _InOrder(_versions.Effect):
    def __repr__(self):
        return "calls of unisono.jax, which has one device in each process"

    __str__ = __repr__


_in_order = _InOrder()
for _kind in _versions.effect_kinds:
    _kind.add_type(_InOrder)

call_p = Primitive("unisono")
call_p.multiple_results = True
call_p.def_impl(lambda *arrays, call: _versions.apply_primitive(call_p, *arrays, call=call))


@call_p.def_effectful_abstract_eval
def _result(*arrays, call):
    return [jax.core.ShapedArray(*call.result(x)) for x in arrays], {_in_order}


def _lower(context, *arrays, call):
    if call.group is not None:
        context.module_context.add_keepalive(call.group)
    token = _versions.abstract_token
    with_token = context.replace(avals_in=[token, *context.avals_in], avals_out=[token, *context.avals_out])
    before = context.tokens_in.get(_in_order)
    after, *results = jax.ffi.ffi_lowering(TARGET, has_side_effect=True)(with_token, before, *arrays, **call.attributes())
    context.set_tokens_out(context.tokens_in.update_tokens(mlir.TokenSet({_in_order: after})))
    return results


def _refuse(context, *arrays, call):
    platforms = ", ".join(context.module_context.platforms)
    hint = (
        "between GPUs or TPUs, jax.distributed.initialize() and jax.lax.psum under shard_map use the device's own network; "
        "jax.device_put(x, jax.devices('cpu')[0]) brings an array here"
    )
    raise refusal(call.operation, f"unisono.jax works on arrays of the CPU, and this is compiled for {platforms}", hint, Unsupported)


mlir.register_lowering(call_p, _refuse)
mlir.register_lowering(call_p, _lower, platform="cpu")
