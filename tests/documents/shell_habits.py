"""Runs each row of the last table of docs/coming-from/launchers.md: what is typed does the same as another command, or ends with an error that says
so before a rank starts."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

# What a rank can tell: all that a launcher decides, but for what is a job's own.
APP = """#!/bin/sh
touch started-$RANK
echo rank $RANK of $WORLD_SIZE, arguments "$@", A=$A, timeout $UNISONO_TIMEOUT, threads $OMP_NUM_THREADS, in $PWD, at $MASTER_ADDR
[ -z "$BOUND" ] || grep Cpus_allowed_list /proc/self/status
"""
SCRIPT = """import os, sys
print(__name__, os.environ["RANK"], sys.argv[1:], sys.executable, __package__)
"""


def rows(document):
    """The cells of the table's rows: from whom, what is typed, and what happens."""
    section = document.read_text(encoding="utf-8").split("\n## What is typed, and what happens\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]


def places(folder="/dev"):
    """How many ranks "auto" means here."""
    gpus = len([name for name in os.listdir(folder) if re.fullmatch(r"nvidia\d+", name)])
    told = subprocess.run([options.unisono, "run", "--nproc-per-node", "cpu", "printenv", "RANK"], capture_output=True, text=True, check=True).stdout
    return gpus or len(told.splitlines())


class Habits(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)
        for name in ("bin", "folder", "package"):
            (self.folder / name).mkdir()
        (self.folder / "bin" / "unisono").symlink_to(options.unisono)
        (self.folder / "app").write_text(APP)
        (self.folder / "app").chmod(0o755)
        (self.folder / "hosts").write_text("localhost slots=2\n")
        for name in ("train.py", "package/__init__.py", "package/train.py"):
            (self.folder / name).write_text("" if name.endswith("__init__.py") else SCRIPT)
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("UNISONO_", "SLURM_", "CUDA_")) and name != "VIRTUAL_ENV"}
        self.environment = {**ours, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "PLACES": str(places()), "OMP_NUM_THREADS": "1"}

    def run_shell(self, command):
        """The exit code, the lines of output in order, what is on standard error, and whether a rank was started."""
        # Other jobs that run meanwhile decide whether ranks get shares of the cores, and nothing about --bind.
        environment = {**self.environment, "BOUND": "1" if "--bind" in command else ""}
        done = subprocess.run(["/bin/sh", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)
        started = [*self.folder.rglob("started-*")]
        for mark in started:
            mark.unlink()
        return done.returncode, sorted(done.stdout.splitlines()), " ".join(done.stderr.split()), bool(started)

    def holds(self, typed, happens):
        same = re.fullmatch(r"(?:.*: )?the same as `([^`]+)`", happens)
        error = re.fullmatch(r"an error: `([^`]+)`", happens)
        self.assertTrue(same or error, f"the row says what no test understands: {happens}")
        code, out, said, started = self.run_shell(typed)
        if error:
            self.assertEqual((code, out, started), (2, [], False), said)
            self.assertIn(error[1], said)
            return
        self.assertEqual(code, 0, said)
        self.assertTrue(out, "no rank has said a word")
        self.assertEqual((code, out), self.run_shell(same[1])[:2], said)

    def test_each_row_holds(self):
        table = rows(options.document)
        self.assertGreaterEqual(len(table), 25)
        for launcher, typed, happens in table:
            with self.subTest(launcher=launcher, typed=typed):
                self.holds(re.fullmatch(r"`([^`]+)`", typed)[1], happens)

    def test_a_row_that_does_not_hold_fails(self):
        for typed, happens in (("unisono run -n 2 ./app", "the same as `unisono run -n 1 ./app`"), ("unisono run ./app", "an error: `no`"),
                               ("unisono run -c 2 ./app", "an error: `another sentence`"), ("unisono run ./app", "who knows")):
            with self.subTest(typed=typed), self.assertRaises(AssertionError):
                self.holds(typed, happens)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--document", type=Path, required=True)
    parser.add_argument("--unisono", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
