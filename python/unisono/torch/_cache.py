"""Extensions that were compiled here, for a PyTorch that the wheel has none for: XDG_CACHE_HOME/unisono (~/.cache/unisono).

The ranks of a host start together, and one of them compiles while the others wait. A compiler that has failed is not asked again by those who waited.
"""

import contextlib
import fcntl
import os
import shlex
import stat

from . import _compile


def folder():
    """The folder of this user's extensions."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "unisono")


def extension(name, compile_to):
    """The path of the extension `name`. If there is none, `compile_to(path)` makes it. Any number of processes may call this at once.

    A file that somebody else may have written is not loaded but made anew. Raises CompileError, Untrusted, and OSError where the folder cannot be written.
    """
    path = os.path.join(folder(), f"{name}.so")
    os.makedirs(folder(), mode=0o700, exist_ok=True)
    if not _is_only_ours(folder()):
        raise Untrusted(f"{folder()} belongs to another user or can be written by one, so nothing is loaded from there",
                        f"chmod 700 {shlex.quote(folder())} if it is yours, or set XDG_CACHE_HOME to a folder of your own")
    if _is_only_ours(path):
        return path
    failed = os.path.join(folder(), f"{name}.failed")
    before = _identity(failed)
    with _locked(os.path.join(folder(), f"{name}.lock")):
        if not _is_only_ours(path):
            if _identity(failed) not in (None, before):  # while this process waited
                with open(failed) as file:
                    raise _compile.CompileError(file.read())
            _compile_once(path, failed, compile_to)
            os.chmod(path, 0o700)  # whatever the umask was; who has seen the file before waits for the lock
    return path


class Untrusted(PermissionError):
    """The folder is open to others. `remedy` says what to do."""

    def __init__(self, text, remedy):
        super().__init__(text)
        self.remedy = remedy


def _identity(path):
    """A value that changes once the file has been replaced; None if there is none."""
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


def _is_only_ours(path):
    """Whether it is there, and only this user and root can have put or changed it."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
