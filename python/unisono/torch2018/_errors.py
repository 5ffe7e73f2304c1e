"""The errors of this module: unisono's own, and each of them a RuntimeError, as every error of torch.distributed was in 2018."""

import functools

from .. import _errors


class InvalidArgument(_errors.InvalidArgument, RuntimeError):
    """A call that is wrong by itself."""


class WrongType(InvalidArgument, TypeError):
    """An argument that is of another type."""


class NotInitialized(_errors.NotInitialized, AssertionError):
    """There is no process group. An AssertionError as well, under `python -O` too."""


class Timeout(_errors.Timeout, RuntimeError):
    """A deadline passed."""

    def __str__(self):
        # Programs look for Gloo's words.
        return super().__str__().replace("; waiting for", "; Timed out waiting for")


class PeerFailed(_errors.PeerFailed, RuntimeError):
    """A peer is gone or gave up."""


class ProtocolError(_errors.ProtocolError, RuntimeError):
    """Bytes on a connection that are not ours."""


KINDS = {getattr(_errors, kind.__name__): kind for kind in (InvalidArgument, Timeout, PeerFailed, ProtocolError)}


def refuse(operation, what, hint=None, kind=InvalidArgument):
    raise _errors.refusal(operation, what, hint, kind)


def with_errors_of_2018(function):
    """A function whose errors are of the kinds above."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except _errors.Error as error:
            error.__class__ = KINDS.get(type(error), type(error))
            raise

    return call
