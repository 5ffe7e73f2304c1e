"""A record of the calls that chrome://tracing and Perfetto show."""

import json
import threading
import time

_lock = threading.Lock()
_file = None
_began = 0.0


def start_timeline(file_path, mark_cycles=False):
    """Rank 0 writes its calls to this file from here on, in the format of Chrome's trace viewer. All ranks may call it. mark_cycles has no meaning here.

    ValueError: a timeline is being written.
    """
    from ._job import rank

    global _file, _began
    with _lock:
        if _file is not None:
            raise ValueError("a timeline is being written: call stop_timeline first")
        if rank() != 0:
            return
        _file, _began = open(file_path, "w"), time.perf_counter()
        _file.write("[\n")


def stop_timeline():
    """Completes the file of start_timeline. Nothing happens if there is none."""
    global _file
    with _lock:
        if _file is not None:
            _file.write("{}]\n")
            _file.close()
            _file = None


def record(name, kind, began, ended):
    if _file is None:
        return
    event = {"name": kind, "args": {"tensor": name}, "ph": "X", "pid": 0, "tid": name, "ts": (began - _began) * 1e6, "dur": (ended - began) * 1e6}
    with _lock:
        if _file is not None:
            _file.write(json.dumps(event) + ",\n")
