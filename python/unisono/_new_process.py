"""What a process can be given that multiprocessing starts as a new interpreter: what that interpreter can import."""

import io
import multiprocessing.process
import os
import pickle
import sys
import types

from ._errors import InvalidArgument


class _OfMain(pickle.Pickler):
    """Raises InvalidArgument for a function or class of the main module."""

    def __init__(self, operation):
        super().__init__(io.BytesIO(), protocol=5)
        self._operation = operation

    def reducer_override(self, value):
        if isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__":
            raise _refusal(self._operation, f"{value.__qualname__} is defined in a notebook, in `python -c` or at a prompt, and the new processes cannot import it")
        return NotImplemented


def _refusal(operation, what):
    error = InvalidArgument(f"{operation}: {what} (put it into a file, and import it from there)")
    error.operation, error.message, error.hint = operation, what, "put it into a file, and import it from there"
    return error


def check(operation, *values):
    """Raises InvalidArgument where a new interpreter could not import the main module, or what `values` have of it."""
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", None) or getattr(sys, "frozen", False):
        return
    file = getattr(main, "__file__", None)
    if file is None:
        for value in values:
            try:
                _OfMain(operation).dump(value)
            except InvalidArgument:
                raise
            except Exception:  # multiprocessing may send it in a way of its own, such as a queue, or says what is wrong with it
                pass
    elif not os.path.exists(os.path.join(multiprocessing.process.ORIGINAL_DIR or "", file)):
        raise _refusal(operation, f"the program was read from {file}, and the new processes cannot read it again")


def loads(operation, data):
    """What was pickled, in a new process. InvalidArgument where this process cannot import it: a function that only the first process defines."""
    try:
        return pickle.loads(data)
    except (AttributeError, ImportError) as error:
        raise _refusal(operation, f"the new process cannot import what it was given: {error}") from error
