"""What the tests that run as several ranks have in common: each rank runs the same unittest cases in the same order. Ranks are processes, or with
--threads N threads of this one."""

import io
import os
import sys
import unittest

import numpy as np

import unisono

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]


def distinct(rank, shape, dtype="float64"):
    """Values that differ between ranks and elements, small enough to be exact in every dtype that holds them."""
    n = int(np.prod(shape))
    if dtype == "bool":
        return ((np.arange(n) * 7 + rank * 3) % 5 < 2).reshape(shape)
    values = (np.arange(n) * 5 + rank * 11) % 17
    if not np.dtype(dtype).kind == "u" and np.dtype(dtype).kind != "b":
        values = values - 8
    if np.dtype(dtype).kind == "c":
        values = values + 1j * (values * 2 + 1)
    return values.astype(dtype).reshape(shape)


class RankTest(unittest.TestCase):
    def setUp(self):
        self.rank = unisono.rank()
        self.size = unisono.world_size()

    def all(self, shape, dtype="float64"):
        return [distinct(r, shape, dtype) for r in range(self.size)]

    def mine(self, shape, dtype="float64"):
        return distinct(self.rank, shape, dtype)

    def same(self, actual, expected, message=""):
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected), err_msg=f"rank {self.rank}: {message}")

    def refused(self, error, text, function, *args, **kwargs):
        """What is raised, with this in its text."""
        with self.assertRaises(error) as caught:
            function(*args, **kwargs)
        self.assertIn(text, str(caught.exception))
        return caught.exception


def _suite():
    return unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])


def _run_here(stream, verbosity):
    return unittest.TextTestRunner(stream=stream, verbosity=verbosity, failfast=True).run(_suite())


def _thread(rank):
    stream = sys.stderr if rank == 0 else io.StringIO()
    result = _run_here(stream, 2 if rank == 0 else 0)
    if not result.wasSuccessful():
        if rank != 0:
            sys.stderr.write(stream.getvalue())
        unisono.world().abort(f"tests of rank {rank} have failed")
    return result.wasSuccessful()


def main():
    if "--threads" in sys.argv:
        ranks = int(sys.argv[sys.argv.index("--threads") + 1])
        sys.exit(0 if all(unisono.run_threads(ranks, _thread)) else 1)
    unisono.initialize(timeout=120)
    rank = unisono.rank()
    if not _run_here(sys.stderr, 2 if rank == 0 else 0).wasSuccessful():
        # The others may wait for this rank: it goes without a goodbye.
        os._exit(1)
    unisono.finalize()
    sys.exit(0)
