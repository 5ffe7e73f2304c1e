"""Runs tests of PyTorch's own torch.testing._internal.distributed.distributed_test, one after the other, over one backend, and prints a line of JSON for
each: its name, how it ended, and why. Started by run_pytorch_suite.py:

    pytorch_suite_worker.py gloo|unisono|stand-in WORLD_SIZE [TEST...]      without tests: prints the names of all

stand-in: ours under the name of gloo, so that what is written for gloo alone runs over it.
Ranks are forked from this process, which has imported everything: that takes a tenth of the time of spawning them.
"""

import json
import os
import sys
import time
import traceback
import types
import unittest

KIND, WORLD_SIZE, TESTS = sys.argv[1], sys.argv[2], sys.argv[3:]
os.environ.update(BACKEND="gloo" if KIND == "stand-in" else KIND, WORLD_SIZE=WORLD_SIZE, MASTER_ADDR="127.0.0.1", OMP_NUM_THREADS="1")
os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "100")
os.environ.setdefault("INIT_METHOD", "file:///replaced-by-each-test")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

if KIND != "gloo":
    import unisono.torch

if KIND == "unisono":
    features = common_distributed.DistTestCases.backend_feature
    for feature in features.values():
        if "gloo" in feature:
            feature.add("unisono")
    features["plugin"].add("unisono")  # what require_backend_is_available asks for
elif KIND == "stand-in":
    c10d = dist.distributed_c10d

    plain = torch._C._distributed_c10d.Backend

    class StandsIn(type):
        """ProcessGroupGloo(...) makes one of ours, and is what it is taken for."""

        def __call__(cls, store, rank, size, timeout=c10d.default_pg_timeout):
            options = c10d._DistributedBackendOptions()
            options.store, options.group_rank, options.group_size, options.timeout = store, rank, size, timeout
            return unisono.torch.create(options, name="gloo")

        def __instancecheck__(cls, instance):
            return isinstance(instance, plain)

    class ProcessGroupGloo(metaclass=StandsIn):
        pass

    # Torch has these for gloo's class alone.
    plain.options = property(lambda self: types.SimpleNamespace())
    plain._set_default_timeout = plain.set_timeout
    c10d.ProcessGroupGloo = dist.ProcessGroupGloo = ProcessGroupGloo

from torch.testing._internal.distributed import distributed_test  # noqa: E402

distributed_test.Barrier.sync.__func__.__defaults__ = (None, 100)  # its ten seconds are for a machine that does nothing else

if KIND == "unisono":
    for supported in ("PROFILING_SUPPORTED_BACKENDS", "CUDA_PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(distributed_test, supported).append("unisono")


class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


def outcome(name):
    result = unittest.TestResult()
    try:
        Suite(name).run(result)
    except Exception:  # what goes wrong before the test is its failure as well
        return "failed", traceback.format_exc()
    if result.failures or result.errors:
        return "failed", "\n".join(text for _, text in result.failures + result.errors)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    return "passed", ""


if __name__ == "__main__":
    if not TESTS:
        print("\n".join(unittest.TestLoader().getTestCaseNames(Suite)))
    for name in TESTS:
        begun = time.monotonic()
        how, why = outcome(name)
        print(json.dumps({"test": name, "how": how, "why": why, "seconds": round(time.monotonic() - begun, 1)}), flush=True)
