"""Extensions that were compiled here, for a PyTorch that the wheel has none for: XDG_CACHE_HOME/unisono (~/.cache/unisono).

The ranks of a host start together, and one of them compiles while the others wait. A compiler that has failed is not asked again by those who waited.
"""

import contextlib
import fcntl
import os
import stat

from . import _compile


def folder():
    """The folder of this user's extensions."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "unisono")


def extension(name, compile_to):
    """The path of the extension `name`. Where there is none, `compile_to(path)` makes it. Any number of processes may call this at once.

    Raises CompileError, and OSError where the folder cannot be written.
    """
    path = os.path.join(folder(), f"{name}.so")
    if os.path.exists(path):
        return _checked(path)
    os.makedirs(folder(), mode=0o700, exist_ok=True)
    failed = os.path.join(folder(), f"{name}.failed")
    before = _identity(failed)
    with _locked(os.path.join(folder(), f"{name}.lock")):
        if not os.path.exists(path):
            if _identity(failed) not in (None, before):  # while this process waited
                with open(failed) as file:
                    raise _compile.CompileError(file.read())
            _compile_once(path, failed, compile_to)
    return _checked(path)


def _identity(path):
    """What is another one once the file has been replaced; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _compile_once(path, failed, compile_to):
    try:
        compile_to(path)
    except _compile.CompileError as error:
        with contextlib.suppress(OSError):
            written = f"{failed}.{os.getpid()}"
            with open(written, "w") as file:
                file.write(str(error))
            os.replace(written, failed)
        raise


@contextlib.contextmanager
def _locked(path):
    # The system takes the lock from a process that ends, and the compiler's time is limited, so the wait ends, too.
    with open(path, "a") as file:
        # A file system without locks: each process compiles for itself then, and the last one's file stays.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _checked(path):
    """The path. Raises PermissionError where somebody else can have put or changed the file."""
    for each in (path, os.path.dirname(path)):
        found = os.stat(each)
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{each} belongs to another user or can be written by one, so it is not loaded")
    return path
