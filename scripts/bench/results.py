"""Shared parts of the scripts beside this file that measure Python programs: environments with packages of PyPI, and pages of results in bench/results."""

import os
import platform
import re
import subprocess

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
PYTHON = os.path.join(ROOT, "build", "python", "bin", "python3")


def environment_with(name, *installs):
    """Returns the Python of an environment below build/peers, which is made where it is missing: the packages of build/python, PyTorch among them, and those of
    these lists of words for `pip install`. RuntimeError says why it cannot be had."""
    folder = os.path.join(ROOT, "build", "peers", name)
    python = os.path.join(folder, "bin", "python")
    complete = os.path.join(folder, "complete")
    if os.path.exists(complete):
        return python

    def run(*words):
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(words[1:])} failed: {(ended.stderr.strip().splitlines() or ['without a word'])[-1]}")
        return ended.stdout

    where = ["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    run(PYTHON, "-m", "venv", "--clear", folder)
    packages = run(PYTHON, *where)
    with open(os.path.join(run(python, *where).strip(), "zz_pytorch.pth"), "w", encoding="utf-8") as file:
        file.write(packages)
    for words in installs:
        run(python, "-m", "pip", "install", "--quiet", *words)
    open(complete, "w", encoding="utf-8").close()
    return python


def machine():
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo", encoding="utf-8").read())
    return f"{os.cpu_count()} × {model[1] if model else platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}"


def write_page(file, head, text):
    """Puts the section, whose first line is its title, in place of one of the same title, before the others."""
    old = open(file, encoding="utf-8").read().removeprefix(head) if os.path.exists(file) else ""
    sections = [section for section in old.split("\n## ")[1:] if section.partition("\n")[0] != text.partition("\n")[0]]
    with open(file, "w", encoding="utf-8") as out:
        out.write(head + "".join(f"\n## {section.rstrip()}\n" for section in [text, *sections]))
