"""What the tests of unisono.torch2018 that start their own jobs have in common."""

import importlib.util
import socket
import textwrap

from jobs import JobTest

if importlib.util.find_spec("torch") is None:
    print("skipped: the package torch is missing")
    raise SystemExit(0)

BEGIN = """
import torch, unisono.torch2018 as dist
from multiprocessing import get_context
torch.set_num_threads(1)
def together(n, function, *args, expect=0):
    children = [get_context("fork").Process(target=function, args=(r, n, *args)) for r in range(n)]
    [child.start() for child in children]
    [child.join() for child in children]
    assert [child.exitcode for child in children] == [expect] * n, [child.exitcode for child in children]
def refused(kind, text, function, *args, **kwargs):
    try: function(*args, **kwargs)
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"nothing was raised: {args} {kwargs}")
def total(n):
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [n] * 3, x
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Jobs(JobTest):
    def alone(self, text, **how):
        return super().alone(BEGIN + textwrap.dedent(text), **how)

    def ranks(self, text, n=2, **how):
        return super().ranks(BEGIN + textwrap.dedent(text), n, **how)
