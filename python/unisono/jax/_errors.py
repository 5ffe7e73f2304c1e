"""The library's exceptions, which come out of compiled functions as JAX's."""

from __future__ import annotations

import atexit
import contextlib
import sys
from collections.abc import Iterator

import jax

from .. import _core
from .._errors import Error
from . import _versions


def error_of(error: BaseException) -> Error | KeyboardInterrupt | None:
    """The exception of unisono that a jax.errors.JaxRuntimeError stands for, with its attributes; KeyboardInterrupt where Ctrl-C has ended a call; None where
    the error is another one.

    try:
        y = step(x)
    except jax.errors.JaxRuntimeError as error:
        if isinstance(ujax.error_of(error), unisono.PeerFailed): ...
    """
    return error if isinstance(error, Error) else _core._xla_error(str(error))


def forget_errors() -> None:
    """Lets JAX go on after an error. Calls that JAX has started after a failed one fail with it. From here on that is over. After InvalidArgument and
    Mismatch the group works on; after another error a new one does (unisono.shrink_group).

    Needed only if JAX dispatches asynchronously, which unisono.jax turns off. library_errors does the same.
    """
    with contextlib.suppress(jax.errors.JaxRuntimeError):
        _versions.wait_for_tokens()
    _versions.forget_tokens()


@contextlib.contextmanager
def library_errors() -> Iterator[None]:
    """Within it, or in a function that it decorates, the exceptions of unisono come out of compiled functions as what they are.

    It waits for what has been started, so that no error comes later.

        with ujax.library_errors():
            y = step(x)                             # raises unisono.PeerFailed, not JaxRuntimeError
    """
    try:
        yield
        _versions.wait_for_tokens()
    except jax.errors.JaxRuntimeError as error:
        ours = error_of(error)
        if ours is None:
            raise
        forget_errors()
        raise ours from error


@atexit.register
def _finish() -> None:
    # Registered behind the library's own function, and so called before it: the calls that are under way are made before this rank leaves.
    try:
        _versions.wait_for_tokens()
    except jax.errors.JaxRuntimeError:
        if not hasattr(sys, "last_value"):  # which it would follow from
            raise
    finally:
        _versions.forget_tokens()
