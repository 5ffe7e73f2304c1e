"""What the tests of unisono.horovod.torch that run as several ranks have in common: each rank runs the same cases in the same order."""

import os
import sys
import unittest

import torch

import unisono.horovod.torch as hvd


def distinct(rank, shape, dtype=torch.float32):
    """Values that differ between ranks and elements, small enough to be exact."""
    n = torch.Size(shape).numel()
    return ((torch.arange(n) * 5 + rank * 11) % 17 - (8 if dtype.is_signed else 0)).to(dtype).reshape(shape)


def adasum(vectors):
    """Adasum's formula in NumPy, for a number of vectors that is a power of two, and others folded onto the first."""
    import numpy as np

    vectors = [np.asarray(v, dtype=np.float64) for v in vectors]

    def pair(a, b):
        return (1 - a @ b / (2 * (a @ a))) * a + (1 - a @ b / (2 * (b @ b))) * b

    power = 1 << (len(vectors).bit_length() - 1)
    vectors = [pair(v, vectors[r + power]) if r + power < len(vectors) else v for r, v in enumerate(vectors[:power])]
    while len(vectors) > 1:
        vectors = [pair(a, b) for a, b in zip(vectors[::2], vectors[1::2])]
    return vectors[0]


class RankTest(unittest.TestCase):
    def setUp(self):
        self.rank, self.size = hvd.rank(), hvd.size()

    def same(self, actual, expected, **how):
        torch.testing.assert_close(actual, expected, **({"rtol": 0, "atol": 0} | how))

    def every(self, shape, dtype=torch.float32):
        return torch.stack([distinct(r, shape, dtype) for r in range(self.size)])


def run():
    torch.set_num_threads(1)
    hvd.init()
    result = unittest.main(module="__main__", exit=False, verbosity=2 if hvd.rank() == 0 else 0, failfast=True).result
    if not result.wasSuccessful():
        os._exit(1)  # without a goodbye: the others may wait for this rank
    hvd.shutdown()
    sys.exit(0)
