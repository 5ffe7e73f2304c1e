"""Horovod's own test/parallel/test_torch.py over unisono.horovod.torch, and test/single/test_torch_elastic.py: whatever fails is in horovod_exceptions.txt.

    run_horovod_suite.py FOLDER [-n RANKS] [-k PART]...     FOLDER is a clone of Horovod; the second file is for one process

Each rank runs the same tests in the same order. A test that fails or stalls ends the job, since the ranks may be at different calls, and the next one begins
another. Fails when a test fails that is no exception, and when an exception passes.
"""

import argparse
import importlib.util
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
FILES = ("test/parallel/test_torch.py", "test/single/test_torch_elastic.py")
STALLED = 120  # seconds


def in_horovods_place(folder):
    """The modules that the tests import: ours for horovod.torch, and stand-ins for what they need beside it where that is not installed."""
    import unisono.horovod as horovod
    import unisono.horovod.torch as hvd

    def in_thread(target, args=(), name=None, daemon=True, silent=False):
        thread = threading.Thread(target=target, args=args, name=name, daemon=daemon)
        thread.start()
        return thread

    threads = types.ModuleType("horovod.runner.util.threads")
    threads.in_thread = in_thread
    runner = types.ModuleType("horovod.runner")
    sys.modules |= {"horovod": horovod, "horovod.torch": hvd, "horovod.torch.mpi_ops": hvd.mpi_ops, "horovod.torch.elastic": hvd.elastic,
                    "horovod.runner": runner, "horovod.runner.util": types.ModuleType("horovod.runner.util"), threads.__name__: threads}
    sys.modules.setdefault("mock", mock)
    if importlib.util.find_spec("cloudpickle") is None:
        sys.modules["cloudpickle"] = pickle
    if importlib.util.find_spec("pytest") is None:
        sys.modules["pytest"] = types.ModuleType("pytest")
        sys.modules["pytest"].mark = types.SimpleNamespace(skip=lambda reason: unittest.skip(reason))
    sys.path.append(str(folder / "test/utils"))


def tests_of(folder):
    """{name: test} of both files."""
    found = {}
    for file in FILES:
        spec = importlib.util.spec_from_file_location(Path(file).stem, folder / file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for suite in unittest.defaultTestLoader.loadTestsFromModule(module):
            found.update((test.id(), test) for test in suite)
    return found


class Result(unittest.TestResult):
    """Writes a line for each test into a file of this rank."""

    def __init__(self, file):
        super().__init__()
        self.file, self.how = file, None

    def startTest(self, test):
        super().startTest(test)
        self.how = ["passed", ""]

    def addSkip(self, test, reason):
        self.how = ["skipped", reason]

    def addFailure(self, test, error):
        self.how = ["failed", self._exc_info_to_string(error, test)]

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)

    def stopTest(self, test):
        super().stopTest(test)
        self.file.write(json.dumps([test.id(), *self.how]) + "\n")
        self.file.flush()


def work(folder, names, results):
    """A rank."""
    os.environ |= {"HOROVOD_RANK": os.environ["RANK"], "HOROVOD_SIZE": os.environ["WORLD_SIZE"]}  # as Horovod's launcher without MPI does
    in_horovods_place(folder)
    import torch

    torch.set_num_threads(1)
    tests = tests_of(folder)
    with open(f"{results}.{os.environ['RANK']}", "w") as file:
        for name in names:
            result = Result(file)
            tests[name].run(result)
            if result.how[0] == "failed":
                os._exit(3)


def read(results, ranks):
    """{test: [how, why]} of the tests that every rank has ended, or that have failed on one; the worst of the ranks' words."""
    words = []
    for rank in range(ranks):
        path = Path(f"{results}.{rank}")
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        words.append({name: [how, why] for name, how, why in (json.loads(line) for line in lines if line.endswith("\n"))})
    worst = {}
    for name in dict.fromkeys(name for word in words for name in word):
        how, why = max((word[name] for word in words if name in word), key=lambda word: ("passed", "skipped", "failed").index(word[0]))
        if how == "failed" or all(name in word for word in words):
            worst[name] = [how, why]
    return worst


def run(folder, names, ranks):
    done = {}
    while left := [name for name in names if name not in done]:
        with tempfile.TemporaryDirectory() as scratch:
            results, noise = os.path.join(scratch, "results"), os.path.join(scratch, "noise")
            launcher = [os.environ["UNISONO_COMMAND"], "run", "-n", str(ranks), "--grace", "3", "--"]
            command = [*launcher, sys.executable, __file__, str(folder), "--work", results, *left]
            with open(noise, "w") as output:
                job = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            ended, since, code = {}, time.monotonic(), None
            while code is None:
                try:
                    code = job.wait(1)
                except subprocess.TimeoutExpired:
                    pass
                now = read(results, ranks)
                if len(now) > len(ended):
                    ended, since = now, time.monotonic()
                if code is None and time.monotonic() - since > STALLED:
                    job.send_signal(signal.SIGTERM)
                    code = job.wait()
            ended = read(results, ranks)
            done |= ended
            stopped = next((name for name in left if name not in done), None)
            if stopped is not None and not any(how == "failed" for how, _ in ended.values()):
                done[stopped] = ["failed", f"the job ended with {code} in this test\n{Path(noise).read_text()[-3000:]}"]
    return done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("-n", type=int, default=2)
    parser.add_argument("-k", action="append", default=[])
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)  # a rank: where its results go, and the tests
    options = parser.parse_args()
    if options.work:
        work(options.folder, options.work[1:], options.work[0])
        return 0
    in_horovods_place(options.folder)
    names = [name for name in tests_of(options.folder) if not options.k or any(part in name for part in options.k)]
    lines = (HERE / "horovod_exceptions.txt").read_text().splitlines()
    exceptions = {name.strip(): why.strip() for name, _, why in (line.partition(":") for line in lines if line and not line.startswith("#"))}
    alone = [name for name in names if name.startswith(Path(FILES[1]).stem + ".")]
    done = run(options.folder.resolve(), [name for name in names if name not in alone], options.n) | run(options.folder.resolve(), alone, 1)
    wrong = 0
    for name, (how, why) in done.items():
        short = name.rpartition(".")[2]
        if how == "failed" and short not in exceptions:
            wrong += 1
            print(f"FAILED {name}\n{why}")
        if how == "passed" and short in exceptions:
            wrong += 1
            print(f"{name} is listed as an exception, and passes")
    counts = Counter("exception" if how == "failed" and name.rpartition(".")[2] in exceptions else how for name, (how, _) in done.items())
    print(f"{len(done)} tests of Horovod with {options.n} ranks: " + ", ".join(f"{n} {how}" for how, n in sorted(counts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
