"""Builds the Python package by CMake, against the PyTorch that this Python has (pip's isolated environment has none, and is passed by)."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def version():
    header = (ROOT / "include/unisono/version.h").read_text()
    return ".".join(re.search(rf"define UNISONO_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


class BuildByCMake(build_ext):
    def run(self):
        folder = Path(self.build_temp).resolve()
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        off = [f"-DUNISONO_BUILD_{what}=OFF" for what in ("BENCH", "COMMAND", "EXAMPLES", "TESTS")]
        # The folder may know another Python's PyTorch from the last time.
        configure = ["cmake", "--fresh", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DUNISONO_TORCH=ON", "-DUNISONO_WHEEL=ON",
                     f"-DUNISONO_PYTHON={sys.executable}", *off]
        if torch := importlib.util.find_spec("torch"):
            configure.append(f"-DTorch_DIR={Path(torch.submodule_search_locations[0]) / 'share/cmake/Torch'}")
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        if shutil.which("ccache"):
            configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
        place = Path(self.build_lib).resolve() if not self.inplace else ROOT / "python"
        for command in (configure,
                        ["cmake", "--build", folder, "--target", "unisono_python", "--parallel", jobs],
                        ["cmake", "--install", folder, "--component", "python", "--prefix", place]):
            subprocess.run(command, check=True, env=environment)

    def get_outputs(self):
        return []


(ROOT / "build").mkdir(exist_ok=True)  # the tree's own, which git does not see
setup(version=version(), options={"egg_info": {"egg_base": "build"}}, ext_modules=[Extension("unisono.torch._C", sources=[])],
      cmdclass={"build_ext": BuildByCMake})
