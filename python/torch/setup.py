"""Builds the wheel of unisono-torch: the modules, an extension for each of some versions of PyTorch, and the sources of one for any other.

The extensions are those of the folder TORCH_EXTENSIONS_FOLDER (scripts/package/torch-wheels), or else one for the PyTorch that this Python has, where there
is one and a compiler. They know nothing of Python, so one wheel is for every version of it.
"""

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ModuleNotFoundError:
    sys.exit("unisono-torch is built with setuptools 70.1 or newer: pip install --upgrade setuptools")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCES, HEADERS = ROOT / "src", ROOT / "include"
# From unisono/torch/extensions: to the library of the package unisono, and to PyTorch's beside it.
RPATH = "$ORIGIN/../../lib:$ORIGIN/../../../torch/lib"
compiling = runpy.run_path(str(ROOT / "python/unisono/torch/_compile.py"))


def version():
    header = (HEADERS / "unisono/version.h").read_text()
    return ".".join(re.search(rf"define UNISONO_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def torch_of_this_python():
    """The folder of PyTorch and its minor version; None where there is none. pip's isolated environment has none, and is passed by."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run([sys.executable, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"],
                           capture_output=True, text=True, env=environment)
    folder = Path(found.stdout.strip()) if found.returncode == 0 else None
    if folder is None and (spec := importlib.util.find_spec("torch")):
        folder = Path(spec.submodule_search_locations[0])
    if folder is None or not (folder / "version.py").is_file():
        return None
    return folder, re.search(r"__version__ = '(\d+\.\d+)", (folder / "version.py").read_text()).group(1)


class Build(build_py):
    def run(self):
        package = Path(self.build_lib) / "unisono/torch"
        shutil.rmtree(package, ignore_errors=True)  # of the last time
        super().run()
        (package / "_version.py").write_text(f'VERSION = "{version()}"\n')
        for path in sum(compiling["files"](SOURCES), []):
            carried = package / "sources" / Path(path).relative_to(SOURCES)
            carried.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, carried)
        extensions = package / "extensions"
        if made := os.environ.get("TORCH_EXTENSIONS_FOLDER"):
            extensions.mkdir(parents=True, exist_ok=True)
            for path in sorted(Path(made).glob("torch-*.so")):
                shutil.copy(path, extensions)
        elif (torch := torch_of_this_python()) and compiling["compiler"]():
            folder, minor = torch
            compiling["compile_extension"](str(folder), str(extensions / f"torch-{minor}.so"), sources=str(SOURCES), headers=str(HEADERS), rpath=RPATH)
        else:
            print("no PyTorch or no compiler here: the first job compiles the extension for its PyTorch")


class Wheel(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class Binary(Distribution):
    def has_ext_modules(self):
        return True


# Beside the package `unisono`, whose libunisono it needs: of the same version.
(ROOT / "build").mkdir(exist_ok=True)  # the tree's own, which git does not see
setup(version=version(), install_requires=["torch>=2.7", f"unisono=={version()}"],
      options={"egg_info": {"egg_base": str(ROOT / "build")}, "build": {"build_base": str(ROOT / "build/unisono-torch")}},
      distclass=Binary, cmdclass={"build_py": Build, "bdist_wheel": Wheel})
