"""PyTorch 1.0's own tests of torch.distributed on unisono.torch2018 (scripts/test/torch2018-suite).

    torch2018_suite.py FOLDER [--backends tcp,gloo,mpi] [-k PART]

Each file is run for each backend and way to meet, as PyTorch ran it, with five edits: the import, the module of DistributedDataParallel, the port, the 5
seconds in which all processes must have come to the end of a test, and a helper that compares tensors as that of 2018 did. Prints a line for each run and
each test that failed, and fails where one did.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

# By file: the backends and ways to meet that it knows.
RUNS = {
    "test_thd_distributed.py": [("tcp", "env"), ("tcp", "file"), ("gloo", "env"), ("gloo", "file"), ("mpi", "env")],
    "test_distributed.py": [("gloo", "env"), ("gloo", "file"), ("mpi", "env")],
}
WORLD_SIZE = 3
# In place of PyTorch's own helper, which needs the compiler of its time. A model is loaded whole, which today's torch.load must be told.
HELPER = '''
import functools, json, os, unittest
import torch

torch.manual_seed(1234)
torch.load = functools.partial(torch.load, weights_only=False)
torch.testing.assert_close(torch.ones(1), torch.ones(1))  # its modules take seconds, which processes would begin with


class TestCase(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1234)

    def assertEqual(self, first, second, msg=None):
        if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
            torch.testing.assert_close(first, second)
        elif isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor):
            super().assertEqual(float(first), float(second), msg)
        else:
            super().assertEqual(first, second, msg)


class Result(unittest.TextTestResult):
    def note(self, test, how, why=""):
        with open(os.path.join(os.environ["RESULTS"], str(os.getpid())), "a") as file:
            file.write(json.dumps([test.id().rpartition(".")[2], how, why]) + "\\n")

    def addSuccess(self, test): self.note(test, "passed"); super().addSuccess(test)
    def addSkip(self, test, why): self.note(test, "skipped", why); super().addSkip(test, why)
    def addFailure(self, test, error): self.note(test, "failed", str(error[1])); super().addFailure(test, error)
    def addError(self, test, error): self.note(test, "failed", str(error[1])); super().addError(test, error)


original = unittest.main


def run_tests():
    original(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Result))


unittest.main = run_tests
'''


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def edited(text):
    text, imports = re.subn(r"import torch\.distributed(\.deprecated)? as dist", "import unisono.torch2018 as dist", text)
    assert imports == 1, "the file imports torch.distributed in another way"
    text = re.sub(r'MASTER_PORT = "29500"|from torch._utils_internal import TEST_MASTER_PORT as MASTER_PORT', f'MASTER_PORT = "{free_port()}"', text)
    text = re.sub(r"(def sync\(.*timeout=)5\)", r"\g<1>100)", text)
    return re.sub(r"nn\.parallel(\.deprecated)?\.(DistributedDataParallel(CPU)?)\(", r"dist.\2(", text)


def run(program, backend, way, parts):
    """(results by test, what was printed)."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("barrier", "test_dir", "results", "init_dir"):
            os.mkdir(os.path.join(folder, name))
        Path(folder, "common_utils.py").write_text(HELPER)
        shutil.copy(program, folder)
        method = "env://" if way == "env" else f"file://{folder}/init_dir/shared_init_file"
        more = {"BACKEND": backend, "TEMP_DIR": folder, "RESULTS": f"{folder}/results", "WORLD_SIZE": str(WORLD_SIZE), "INIT_METHOD": method}
        launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(WORLD_SIZE)] if backend == "mpi" else []
        command = [*launcher, sys.executable, os.path.join(folder, os.path.basename(program))]
        done = subprocess.run([*command, *(word for part in parts for word in ("-k", part))], env=os.environ | more, cwd=folder, capture_output=True, text=True)
        results = {}
        for file in Path(folder, "results").iterdir():
            for test, how, why in map(json.loads, file.read_text().splitlines()):
                if results.get(test, ("",))[0] != "failed":  # of every rank of an MPI job
                    results[test] = how, why
        return results, done.returncode, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backends", default="tcp,gloo,mpi")
    parser.add_argument("--build")  # for the script
    parser.add_argument("-k", dest="parts", action="append", default=[])
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, runs in RUNS.items():
            program = Path(folder, name)
            program.write_text(edited((given.folder / "test" / name).read_text()))
            for backend, way in runs:
                if backend not in given.backends.split(","):
                    continue
                if backend == "mpi" and not shutil.which("mpirun"):
                    print(f"{name} mpi: left out, mpirun is missing", flush=True)
                    continue
                results, code, printed = run(program, backend, way, given.parts)
                counts = Counter(how for how, _ in results.values())
                print(f"{name} {backend} {way}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
                for test, (how, why) in results.items():
                    if how == "failed":
                        print(f"    {test}: {why.splitlines()[0] if why else ''}")
                if code or counts["failed"] or not (results or given.parts):
                    failed = True
                    print(printed[-6000:])
    sys.exit(failed)


if __name__ == "__main__":
    main()
