"""The parts of JAX outside its documented interface that are used, in one place, and the check that they exist."""

from __future__ import annotations

import os

try:
    import jax
except ModuleNotFoundError as missing:
    if missing.name != "jax":
        raise
    raise ModuleNotFoundError("unisono.jax needs JAX 0.5 or newer: pip install jax", name="jax") from None

OLDEST = (0, 5, 0)
if jax.__version_info__ < OLDEST:
    raise ImportError(f"unisono.jax needs JAX 0.5 or newer; this is JAX {jax.__version__} (pip install --upgrade jax)")

try:
    from jax._src import effects
    from jax._src.core import abstract_token
    from jax._src.dispatch import apply_primitive, runtime_tokens

    effect_kinds = (
        effects.ordered_effects,
        effects.lowerable_effects,
        effects.control_flow_allowed_effects,
        effects.custom_derivatives_allowed_effects,
        effects.remat_allowed_effects,
    )
    Effect = effects.Effect
    forget_tokens = runtime_tokens.clear
    wait_for_tokens = runtime_tokens.block_until_ready
    # Else a thread of XLA may still be in a call when the program goes on to one outside of JAX, and the ranks' calls cross; and errors come late.
    if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in os.environ:
        jax.config.update("jax_cpu_enable_async_dispatch", False)
except (ImportError, AttributeError) as error:
    raise ImportError(f"unisono.jax does not know JAX {jax.__version__}: {error}. It was written for JAX 0.5 to 0.10.") from error
