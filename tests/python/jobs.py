"""What the tests that start jobs have in common: programs as text, run as so many ranks, and what they printed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

UNISONO = os.environ.get("UNISONO_COMMAND") or shutil.which("unisono")
WITH_HOSTS = str(Path(__file__).parents[1] / "hosts" / "with_hosts")
BEGIN = """
import os, signal, sys, time
import numpy as np
import unisono
"""


class JobTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def program(self, text, name="program.py"):
        path = self.folder / name
        path.write_text(BEGIN + textwrap.dedent(text))
        return str(path)

    @staticmethod
    def environment(**more):
        ours = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "UNISONO_LAUNCHER_FD", "UNISONO_COMMAND")
        return {k: v for k, v in os.environ.items() if k not in ours} | {"OMP_NUM_THREADS": "1", "COVERAGE_FOLDER": ""} | more

    def run_command(self, command, expect=0, timeout=300, **environment):
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=self.environment(**environment), cwd=self.folder)
        output = done.stdout + done.stderr
        if "with_hosts: this system lets no hosts be made" in output:
            self.skipTest(output)
        if expect is not None:
            self.assertEqual(done.returncode, expect, output)
        return output

    def alone(self, text, expect=0, **how):
        return self.run_command([sys.executable, self.program(text)], expect, **how)

    def ranks(self, text, n=2, expect=0, options=(), grace=10, **how):
        """The output of `unisono run -n N`: each line begins with its rank, [0]. `grace`: the seconds that survivors have to say what they were told."""
        return self.run_command([UNISONO, "run", "-n", str(n), "--grace", str(grace), *options, "--", sys.executable, self.program(text)], expect, **how)

    def two_hosts(self, text, expect=None, token="the secret of these tests", **environment):
        """The output of two hosts with a rank each. The test is skipped where the system lets no hosts be made."""
        command = [WITH_HOSTS, "2", "--", UNISONO, "run", "--nnodes", "2", "--node-rank", "{host}", "--master-addr", "{master}", "-n", "1", "--grace", "3",
                   "--", sys.executable, self.program(text)]
        return self.run_command(command, expect, UNISONO_TOKEN=token, UNISONO_TIMEOUT="30", **environment)

    def lines(self, output, rank):
        return [line.removeprefix(f"[{rank}] ") for line in output.splitlines() if line.startswith(f"[{rank}] ")]

    def wait_for(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it took too long")
            time.sleep(0.02)
