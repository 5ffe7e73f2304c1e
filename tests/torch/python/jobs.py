"""What the tests that start jobs have in common."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

UNISONO = os.environ.get("UNISONO_COMMAND") or shutil.which("unisono")
BEGIN = """
import os, re, sys, time, datetime, signal
import torch, torch.distributed as dist
import unisono.torch
torch.set_num_threads(1)
def begin(**how):
    dist.init_process_group("unisono", **{"timeout": datetime.timedelta(seconds=60), **how})
    return dist.get_rank(), dist.get_world_size()
def error_of(f):
    try:
        f()
    except Exception as error:
        return error
    raise AssertionError("it went well")
def say_fine(rank, size):
    os.write(1, f"rank {rank} of {size} is fine\\n".encode())  # at once: ranks share the output, and print() writes in pieces
"""
WORKS = """
x = torch.tensor([float(rank + 1)])
dist.all_reduce(x)
assert x.item() == size * (size + 1) / 2, x
say_fine(rank, size)
"""


class JobTest(unittest.TestCase):
    python = (sys.executable,)  # runs a program
    longest = 300  # seconds that a job may take

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def program(self, text):
        path = self.folder / "program.py"
        path.write_text(BEGIN + textwrap.dedent(text))
        return str(path)

    def run_command(self, command, expect=0, **environment):
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.longest, env={**self.plain_environment(), **environment})
        output = done.stdout + done.stderr
        if expect is not None:
            self.assertEqual(done.returncode, expect, output)
        return output

    @staticmethod
    def plain_environment():
        ours = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        return {k: v for k, v in os.environ.items() if k not in ours} | {"OMP_NUM_THREADS": "1"}

    def ranks(self, text, n=2, expect=0, **more):
        """One process for each rank, started by hand: they meet in a file."""
        path = self.program(text)
        processes = []
        for rank in range(n):
            environment = self.plain_environment() | {"RANK": str(rank), "WORLD_SIZE": str(n), "MEETING": f"file://{self.folder}/meeting"} | more
            processes.append(subprocess.Popen([*self.python, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment))
        try:
            outputs = [process.communicate(timeout=self.longest)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()  # nothing to one that has ended
        codes = [process.returncode for process in processes]
        if expect is not None:
            self.assertEqual(codes, [expect] * n if isinstance(expect, int) else expect, "\n".join(outputs))
        return outputs

    def held_port(self):
        """A port that nobody else is given: this socket keeps it for the whole test, and does not listen, so that a rank may."""
        holder = socket.socket()
        self.addCleanup(holder.close)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]

    BY_FILE = 'rank, size = begin(init_method=os.environ["MEETING"], rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))\n'

    def fine(self, output, n):
        self.assertEqual(len(re.findall(rf"rank \d+ of {n} is fine", output)), n, output)
