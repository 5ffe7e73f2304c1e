"""Objects that the modules by the names of other systems send by themselves. SECURITY.md says where pickle is used."""

import os
import pickle

from ._errors import InvalidArgument, refusal


def check(operation):
    """Raises InvalidArgument where UNISONO_PICKLE allows no pickles."""
    if os.environ.get("UNISONO_PICKLE", "on") != "on":
        raise refusal(operation, f"objects of Python travel by pickle, which UNISONO_PICKLE={os.environ['UNISONO_PICKLE']} does not allow")


def loads(operation, data):
    check(operation)
    return pickle.loads(data)


def dumps(operation, value, module=pickle):
    """(the bytes, None), or (why there are none, the exception), which the others are to learn before they wait for the bytes."""
    try:
        check(operation)
        return module.dumps(value, protocol=5), None
    except Exception as error:
        return f"{type(error).__name__}: {error}".encode(), error


def check_all(operation, parcels, error=None):
    """Raises this rank's own error, or what the others raise where a rank has one. A parcel is what dumps has written, or why it could not, and whether it
    could not; they are in the order of the ranks, or a dict by rank."""
    if error is not None:
        raise error
    for rank, (text, has_failed) in parcels.items() if isinstance(parcels, dict) else enumerate(parcels):
        if has_failed:
            raise InvalidArgument(f"{operation}: rank {rank} cannot take part: {text.decode(errors='replace')}")


def loads_all(operation, parcels, error=None):
    """The objects of all ranks' parcels."""
    check_all(operation, parcels, error)
    return [loads(operation, data) for data, _ in parcels]
