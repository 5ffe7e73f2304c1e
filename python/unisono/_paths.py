"""The places where this package keeps the extension, the command, the library and the CMake package."""

import os
import platform
import shutil
import sysconfig

from ._errors import Unsupported

_here = os.path.dirname(os.path.abspath(__file__))


def command():
    """Returns the path of the command `unisono`.

    Returns
    -------
    str
        That of this package, in a build folder the one that was built, otherwise the one on PATH.

    Raises
    ------
    Unsupported
        If the command is not part of this build, and there is none on PATH.

    Examples
    --------
    >>> import os
    >>> os.path.basename(unisono.command())
    'unisono'
    """
    for folder in (os.path.join(_here, "bin"), os.path.join(os.path.dirname(os.path.dirname(_here)), "bin")):
        path = os.path.join(folder, "unisono")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("unisono")
    if found is None:
        raise Unsupported("the command unisono is not part of this build, and there is none on PATH")
    return found


def library(version):
    """The path of libunisono of this version: in this package, in the build folder, or in the prefix where this package was installed."""
    name = "libunisono.so." + ".".join(version.split(".")[:2])
    return _first("the library libunisono", name, (_here, "lib"), (_here, "..", "..", "lib"), (_here, "..", "..", ".."))


def headers():
    """The folder that holds the public headers in a folder `unisono`, of the library that `library` names."""
    sources = os.path.realpath(os.path.join(_here, "torch", "sources"))  # of a build folder: the tree
    return os.path.dirname(os.path.dirname(
        _first("the headers", "unisono/version.h", (_here, "include"), (sources, "..", "include"), (_here, "..", "..", "..", "..", "include"))))


def _first(what, name, *folders):
    for folder in folders:
        path = os.path.normpath(os.path.join(*folder, name))
        if os.path.exists(path):
            return path
    raise ImportError(f"{what} of unisono ({name}) cannot be found: install the package unisono again")


def cmake_prefix():
    """Returns what CMAKE_PREFIX_PATH needs to find the library of this package.

    Returns
    -------
    str
        A folder in which find_package(unisono) finds it.

    Examples
    --------
    >>> import os
    >>> os.path.isdir(unisono.cmake_prefix())
    True
    """
    return _here


def explain(error):
    """Raises ImportError where this package has an extension, which this Python cannot load. Returns where it has none."""
    extensions = sorted(name for name in os.listdir(_here) if name.startswith("_core.") and name.endswith(".so"))
    if not extensions and isinstance(error, ModuleNotFoundError) and error.name == "unisono._core":
        return
    python = f"{platform.python_implementation()} {platform.python_version()} on {sysconfig.get_platform()}"
    raise ImportError(
        f"unisono: {', '.join(extensions) or 'the extension'} cannot be loaded by {python}: {error}. Install the package for this Python and this "
        "machine: python -m pip install --force-reinstall unisono",
        name="unisono",
    ) from error
