"""Tells the other ranks how this process ends: a rank that fails says why, and one that ends well leaves its groups.

Python has no call that tells how a process ends, but it leaves traces. An exception that nobody catches is in sys.last_exc when the interpreter ends.
sys.exit gets the code. Processes of multiprocessing clean up while their exception is being handled.
"""

import atexit
import functools
import multiprocessing.util
import os
import re
import sys
import threading

LONGEST = 300  # the most characters of an exception's own text

_watching = None  # the number of the watching process; a forked child starts anew
_exit = None  # how the last call of sys.exit ended it
_extensions: list[str] = []  # the names of the modules whose end_all(how) tells the other ranks


def watch(extension: str) -> None:
    """Has the others told how this process ends, by end_all of this module. Called when its first group is formed."""
    global _watching, _exit
    if extension not in _extensions:
        _extensions.append(extension)
    if _watching == os.getpid():
        return
    first = _watching is None
    _watching, _exit = os.getpid(), None
    # Processes of multiprocessing end without atexit. Their finalizers run while the exception that ends them is being handled.
    multiprocessing.util.Finalize(None, _at_end, exitpriority=100)
    # This runs before Python waits for other threads, which may wait for ranks that wait for this one.
    register_early = getattr(threading, "_register_atexit", None)
    if register_early:
        try:
            register_early(_tell_failure)
        except RuntimeError:  # too late for this one, but in time for atexit
            pass
    if first:
        _listen_to_exit()
        _print_once()


def _listen_to_exit() -> None:
    original = sys.exit

    @functools.wraps(original)
    def exit(status=None, /):
        global _exit
        if threading.current_thread() is threading.main_thread():
            failure = describe(SystemExit(status), sys.exc_info()[1])
            # multiprocessing calls sys.exit with the code after the process has given a better reason.
            if failure is None or _exit is None or not failure.startswith("ended with sys.exit"):
                _exit = failure
        original(status)

    sys.exit = exit


def _print_once():
    """Under `unisono run` a Mismatch that nobody catches is printed by the culprit and by the lowest other rank. All ranks raise it, and the launcher
    shows its text and the ranks in groups. A program's own excepthook is left alone."""
    if "UNISONO_LAUNCHER_FD" not in os.environ or sys.excepthook is not sys.__excepthook__:
        return

    @functools.wraps(sys.__excepthook__)
    def excepthook(type, error, traceback, /):
        if not is_printed_by_others(str(error)):
            sys.__excepthook__(type, error, traceback)

    sys.excepthook = excepthook


def is_printed_by_others(text):
    """Whether this is the text of a Mismatch, on a rank that need not print it."""
    if "every rank must make the same calls in the same order" not in text:
        return False
    own, culprit = re.search(r", rank (\d+)", text), re.search(r"\[culprit: rank (\d+)", text)
    first = 1 if culprit and culprit[1] == "0" else 0
    return own is not None and int(own[1]) != first and not (culprit and own[1] == culprit[1])


def describe(error, handled=None):
    """Returns how a process ended by this exception, in words that follow the rank: "ended with ValueError: bad data". None if that is not a failure.
    `handled` is the exception that was being handled where the program called sys.exit."""
    if isinstance(error, SystemExit):
        if not error.code:
            return None
        cause = handled or error.__context__
        if isinstance(cause, (Exception, KeyboardInterrupt)):
            return describe(cause)
        return f"ended with sys.exit({_short(repr(error.code))})"
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted (KeyboardInterrupt)"
    try:
        text = str(error)
    except Exception:
        text = ""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    name = type(error).__name__
    return f"ended with {name}: {_short(first)}" if first else f"ended with {name}"


def _short(text):
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _failure():
    under_way = sys.exc_info()[1]
    if under_way is not None:
        return describe(under_way)
    return _uncaught() or _exit


def _uncaught():
    # Only an exception of the main module ends a program. An interactive session goes on after an error, and some programs leave errors of callbacks
    # here.
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return None
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    trace = getattr(error, "__traceback__", None)
    if trace is None or trace.tb_frame.f_globals.get("__name__") not in ("__main__", "runpy"):
        return None
    return describe(error)


def _end_all(how: str) -> None:
    for name in _extensions if _watching == os.getpid() else ():
        extension = sys.modules.get(name)
        if extension is not None:
            extension.end_all(how)


def _tell_failure() -> None:
    how = _failure()
    if how:
        _end_all(how)


def _at_end() -> None:
    _end_all(_failure() or "")


# Registered as early as this module is imported, so that functions which programs register later run before it and may still use their groups.
atexit.register(_at_end)
