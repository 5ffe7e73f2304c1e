"""What a test covers of tests/features, written when it has passed: COVERS of tests/covers.h for unittest."""

import atexit
import contextlib
import functools
import os
import sys

_folder = os.environ.get("COVERAGE_FOLDER")
_passed = set()


def covers(*rows):
    """A test that returns has passed; one that is skipped raises."""

    def decorate(test):
        @functools.wraps(test)
        def run(self):
            test(self)
            _passed.update((row, self.id().removeprefix("__main__.")) for row in rows)

        return run

    return decorate


def _path():
    return os.path.join(_folder, os.environ["COVERAGE_RUN"] + ".txt")


def _write():
    os.makedirs(_folder, exist_ok=True)
    unfinished = f"{_path()}.{os.getpid()}"
    with open(unfinished, "w") as file:
        file.write(f"program {os.path.abspath(sys.argv[0])}\n")
        file.writelines(f"passed {row} {test}\n" for row, test in sorted(_passed))
    os.replace(unfinished, _path())


if _folder:
    with contextlib.suppress(FileNotFoundError):  # another rank of the test may have been faster
        os.remove(_path())
    atexit.register(_write)
