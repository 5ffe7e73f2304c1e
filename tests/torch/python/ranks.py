"""The common part of the tests that run as several ranks: each rank runs the same unittest cases in the same order."""

import os
import sys
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

import unisono.torch  # noqa: F401  (makes the backend known)


def distinct(rank, shape, dtype=torch.float32, low=-8):
    """Values that differ between ranks and elements, small enough to be exact in every dtype that holds them."""
    n = 1
    for extent in shape:
        n *= extent
    if dtype == torch.bool:
        return ((torch.arange(n) * 7 + rank * 3) % 5 < 2).reshape(shape)
    values = (torch.arange(n) * 5 + rank * 11) % 17 + (0 if not dtype.is_signed else low)
    if dtype.is_complex:
        return torch.complex(values.to(torch.float64), (values * 2 + 1).to(torch.float64)).to(dtype).reshape(shape)
    return values.to(dtype).reshape(shape)


class RankTest(unittest.TestCase):
    def setUp(self):
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()

    def every(self, shape, dtype=torch.float32):
        """The values of all ranks, in their order."""
        return [distinct(r, shape, dtype) for r in range(self.size)]

    def same(self, actual, expected, message=""):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, msg=lambda m: f"rank {self.rank}: {message}\n{m}")

    def close(self, actual, expected, message="", rtol=1e-5, atol=1e-6):
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, msg=lambda m: f"rank {self.rank}: {message}\n{m}")


def main(timeout=120, group=True):
    torch.set_num_threads(1)
    if group:
        dist.init_process_group("unisono", timeout=timedelta(seconds=timeout))
    rank = int(os.environ["RANK"])
    result = unittest.main(module="__main__", exit=False, verbosity=2 if rank == 0 else 0, failfast=True).result
    if not result.wasSuccessful():
        # The others may wait for this rank: it goes without a goodbye.
        os._exit(1)
    if group:
        dist.destroy_process_group()
    sys.exit(0)
