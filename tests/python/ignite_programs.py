"""What the tests of unisono.ignite that start their own jobs have in common."""

import textwrap

from jobs import JobTest

BEGIN = """
import os, signal, sys, time, warnings
from pathlib import Path
import torch
import torch.distributed as dist
import unisono.ignite as idist
torch.set_num_threads(1)
def error_of(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except BaseException as error:
        return error
    raise AssertionError("it went well")
def fine():
    os.write(1, b"a rank is fine\\n")
"""


class IgniteTest(JobTest):
    def program(self, text, name="program.py"):
        path = self.folder / name
        path.write_text(BEGIN + textwrap.dedent(text))
        return str(path)

    def all_fine(self, output, ranks):
        self.assertEqual(output.count("a rank is fine"), ranks, output)
