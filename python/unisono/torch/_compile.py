"""Compiles the extension for one PyTorch: of a user's, once (_cache.py), and of each version that a wheel is for.

    python _compile.py TORCH_FOLDER OUTPUT --sources FOLDER --headers FOLDER [--library FILE] [--rpath PATH]

It imports neither torch nor unisono, because it also runs when neither can be imported.
"""

import argparse
import glob
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

LONGEST = 1800  # seconds that the compiler may take
OPTIONS = ("-std=c++20", "-O2", "-DNDEBUG", "-DFMT_HEADER_ONLY=1", "-fPIC", "-fvisibility=hidden", "-w")
MOST_LINES = 12  # of the compiler's errors


class CompileError(Exception):
    """The compiler is missing or has failed; the text is the reason."""


def compiler():
    """The C++ compiler as the beginning of a command: CXX, otherwise the first one on PATH. None if there is none."""
    named = shlex.split(os.environ.get("CXX", ""))
    if named:
        return named if shutil.which(named[0]) else None
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    return None


def files(sources):
    """The files of the extension below this folder, those that are compiled first."""
    folders = ("python", "remote")
    compiled = [path for folder in folders for path in sorted(glob.glob(os.path.join(sources, "torch", folder, "*.cpp")))]
    compiled += [os.path.join(sources, "torch", name) for name in ("tensor.cpp", "memory.cpp")]
    headers = [path for folder in folders for path in sorted(glob.glob(os.path.join(sources, "torch", folder, "*.h")))]
    return compiled, [*headers, os.path.join(sources, "base", "thread.h")]


def digest(sources, *more):
    """A hash of what an extension is made of: the sources, the options and these texts."""
    state = hashlib.sha256("\0".join([*OPTIONS, *map(str, more)]).encode())
    for path in sum(files(sources), []):
        with open(path, "rb") as file:
            state.update(file.read() + b"\0")
    return state.hexdigest()


def soname(headers):
    """The name under which the library of these headers is loaded."""
    with open(os.path.join(headers, "unisono", "version.h")) as file:
        version = dict(re.findall(r"UNISONO_VERSION_(\w+) (\d+)", file.read()))
    return f"libunisono.so.{version['MAJOR']}.{version['MINOR']}"


def compile_extension(torch_folder, output, *, sources, headers, library=None, rpath=None):
    """Compiles the extension for the PyTorch in this folder into the file `output`, which appears whole or not at all.

    `sources` holds the extension's own files, `headers` the folder unisono of public headers. It is linked with `library`, the libunisono; without one, which
    is enough where another machine loads it, with its name alone. `rpath` is where both libraries are looked for where they are not loaded yet. Raises
    CompileError.
    """
    command = compiler()
    if command is None:
        raise CompileError("there is no C++ compiler")
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unisono-", dir=os.path.dirname(os.path.abspath(output))) as folder:
        together, made = os.path.join(folder, "extension.cpp"), os.path.join(folder, "extension.so")
        with open(together, "w") as file:  # together, because PyTorch's headers take most of the time
            file.writelines(f'#include "{path}"\n' for path in files(os.path.abspath(sources))[0])
        checked = ["-Wl,-z,defs"] if library else []
        if library is None:
            library = os.path.join(folder, "libunisono.so")
            _run([*command, "-shared", "-nostdlib", f"-Wl,-soname,{soname(headers)}", "-x", "c", os.devnull, "-o", library])
        include, libraries = os.path.join(torch_folder, "include"), os.path.join(torch_folder, "lib")
        _run([*command, *OPTIONS, f"-I{os.path.abspath(sources)}", f"-I{headers}", "-isystem", include,
              "-isystem", os.path.join(include, "torch", "csrc", "api", "include"), together, "-shared", "-o", made, *checked,
              "-Wl,--no-as-needed", library, f"-L{libraries}", "-ltorch_cpu", "-lc10", *([f"-Wl,-rpath,{rpath}"] if rpath else [])])
        os.replace(made, output)


def _run(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LONGEST)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(str(error)) from None
    if done.returncode != 0:
        lines = done.stdout.splitlines()
        errors = [line for line in lines if "error" in line] or lines
        raise CompileError(f"{command[0]} ended with code {done.returncode}\n" + "\n".join(errors[:MOST_LINES]))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("torch_folder", "output"):
        options.add_argument(name)
    for name in ("--sources", "--headers"):
        options.add_argument(name, required=True)
    for name in ("--library", "--rpath"):
        options.add_argument(name)
    given = vars(options.parse_args())
    try:
        compile_extension(given.pop("torch_folder"), given.pop("output"), **given)
    except CompileError as error:
        sys.exit(f"_compile.py: {error}")


if __name__ == "__main__":
    main()
