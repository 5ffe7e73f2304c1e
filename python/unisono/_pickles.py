"""Objects that the modules by the names of other systems send by themselves."""

import pickle

from ._errors import InvalidArgument


def dumps(value, module=pickle):
    """(the bytes, None), or (why there are none, the exception), which the others are to learn before they wait for the bytes."""
    try:
        return module.dumps(value, protocol=5), None
    except Exception as error:
        return f"{type(error).__name__}: {error}".encode(), error


def refuse(operation, rank, text):
    """Raises what the others raise where this rank's object cannot be sent."""
    raise InvalidArgument(f"{operation}: rank {rank} cannot take part: {text.decode(errors='replace')}")
