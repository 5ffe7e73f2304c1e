"""What the tests of unisono.torch2018 that run as several ranks have in common: each rank runs the same cases in the same order."""

import io
import os
import sys
import unittest

import torch

import unisono.torch2018 as dist


def distinct(rank, shape=(2, 3), dtype=torch.float32):
    n = max(1, int(torch.tensor(shape).prod()))
    return ((torch.arange(n) * 5 + rank * 11) % 13 + 1).to(dtype).reshape(shape)


class Ranks(unittest.TestCase):
    def setUp(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def every(self, shape=(2, 3), dtype=torch.float32, ranks=None):
        return torch.stack([distinct(r, shape, dtype) for r in (range(self.size) if ranks is None else ranks)])

    def same(self, tensor, expected):
        torch.testing.assert_close(tensor, expected, rtol=0, atol=0)

    def refused(self, kind, text, function, *args, **kwargs):
        with self.assertRaises(kind) as caught:
            function(*args, **kwargs)
        self.assertIn(text, str(caught.exception))
        return caught.exception


def main():
    """Runs the cases of the program on every rank; rank 0 prints."""
    dist.init_process_group("tcp")
    stream = sys.stderr if dist.get_rank() == 0 else io.StringIO()
    result = unittest.TextTestRunner(stream, verbosity=2, failfast=True).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    if not result.wasSuccessful():
        if dist.get_rank() > 0:
            print(stream.getvalue(), file=sys.stderr, flush=True)
        os._exit(1)
    dist.destroy_process_group()
    if dist.is_initialized():
        os._exit(1)
