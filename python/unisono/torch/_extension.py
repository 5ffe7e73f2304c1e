"""The compiled part of unisono.torch: an extension for each minor version of PyTorch, of which one is loaded when the first group is formed.

An extension depends on the version of PyTorch alone, not on Python's. If the package has none for the installed PyTorch, it is compiled once for this
user (_cache.py), from sources that the package carries.
"""

import ctypes
import os
import platform
import re
import sys
import threading
from datetime import timedelta

from .. import _paths
from . import _cache, _compile
from ._version import VERSION

_here = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(_here, "sources")
EXTENSIONS = os.path.join(_here, "extensions")

_library = None
_loading = threading.Lock()


def create(options, name, engine, library):
    """Makes the backend of a group from torch.distributed's DistributedBackendOptions: collective over its ranks, which all must name the same `library`."""
    import torch

    load()
    c10d = torch._C._distributed_c10d
    given = c10d.ProcessGroup(options.store, options.group_rank, options.group_size)
    made = torch.ops.unisono.create(given.boxed(), name, engine, options.timeout // timedelta(milliseconds=1), options.group_id,
                                    list(options.global_ranks_in_group), library)
    return c10d.ProcessGroup.unbox(made)._get_backend(torch.device("cpu"))


def end_all(how):
    """Ends this process's part in all groups; `how` says how the process ends, or is empty."""
    if _library is not None:
        _library.unisono_torch_end_all(how.encode())


def load():
    """Loads the extension for this PyTorch, which may compile it, and returns it. Raises ImportError if there is none and none can be made."""
    global _library
    with _loading:
        if _library is not None:
            return _library
        import torch

        if not torch._C._GLIBCXX_USE_CXX11_ABI:
            raise ImportError(f"unisono-torch: PyTorch {torch.__version__} was built with the old ABI of libstdc++, unlike the wheels of PyTorch from 2.7 on: "
                              f"install one of these (pip install 'torch=={carried()[-1] if carried() else 2.13}.*')")
        _library = _load_for(torch)
        _library.unisono_torch_built_for.restype = ctypes.c_char_p
        _library.unisono_torch_end_all.argtypes = [ctypes.c_char_p]
        _library.unisono_torch_end_all.restype = None
        return _library


def is_at_hand(torch):
    """True where `load` has nothing to compile."""
    return _library is not None or ".".join(str(torch.__version__).split(".")[:2]) in carried()


def carried():
    """The minor versions of PyTorch that the package has an extension for, the oldest first: ["2.7", "2.8"]."""
    try:
        found = [re.fullmatch(r"torch-(\d+)\.(\d+)\.so", name) for name in os.listdir(EXTENSIONS)]
    except FileNotFoundError:
        return []
    return [f"{major}.{minor}" for major, minor in sorted((int(each[1]), int(each[2])) for each in found if each)]


def _load_for(torch):
    # Loaded first, so that an extension finds this one, wherever it lies itself.
    ctypes.CDLL(_paths.library(VERSION))
    release = re.fullmatch(r"(\d+\.\d+)\.\d+(\+.*)?", str(torch.__version__))  # a version under development may differ from what it becomes
    unfit = ""
    if release and release[1] in carried():
        try:
            return ctypes.CDLL(os.path.join(EXTENSIONS, f"torch-{release[1]}.so"))
        except OSError as error:  # a PyTorch that was built in another way
            unfit = f" (the one for {release[1]} does not fit: {error})"
    only = f", only for {', '.join(carried())}" if carried() else ""
    why = f"unisono-torch {VERSION} has no extension for PyTorch {torch.__version__}{unfit}{only}"
    try:
        return ctypes.CDLL(_compiled(torch))
    except (_compile.CompileError, OSError) as error:
        reason, _, lines = str(error).partition("\n")
        remedy = getattr(error, "remedy", None) or _remedy() + (", or set XDG_CACHE_HOME to a folder of your own" if isinstance(error, OSError) else "")
        raise ImportError(f"{why}, and none could be compiled, since {reason}: {remedy}" + (f"\n{lines}" if lines else "")) from None


def _compiled(torch):
    """The path of the extension that was compiled for this very PyTorch."""
    folder = os.path.dirname(torch.__file__)
    made_of = _compile.digest(SOURCES, VERSION, torch.__version__, torch.version.git_version, platform.machine())

    def compile_to(path):
        if _compile.compiler():
            print(f"unisono: compiling the backend for PyTorch {torch.__version__}, once: {path}", file=sys.stderr, flush=True)
        _compile.compile_extension(folder, path, sources=SOURCES, headers=_paths.headers(), library=_paths.library(VERSION))

    return _cache.extension(f"torch-{torch.__version__}-{made_of[:16]}", compile_to)


def _remedy():
    have = carried()
    others = [f"one of these versions of PyTorch (pip install 'torch=={have[-1]}.*')"] if have else []
    return "install " + ", or ".join([*others, "a newer unisono-torch", "a C++ compiler (g++ 12 or newer)"])
