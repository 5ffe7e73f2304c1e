"""Arrays in a GPU's memory, with one rank and with two that share a GPU: whose arrays come back, and where they lie. Skipped where there is no GPU."""

import importlib.util
import os
import unittest

import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the ranks may share the GPU

import unisono
from ranks import RankTest, main


def gpu_of(module):
    """Whether the library is here and sees a GPU."""
    if importlib.util.find_spec(module) is None:
        return False
    if module == "torch":
        import torch

        return torch.cuda.is_available()
    if module == "cupy":
        import cupy

        try:
            return cupy.cuda.runtime.getDeviceCount() > 0
        except cupy.cuda.runtime.CUDARuntimeError:
            return False
    if module == "numba":
        import numba.cuda

        return numba.cuda.is_available()
    import jax

    try:
        return bool(jax.devices("gpu"))
    except RuntimeError:
        return False


class Gpu(RankTest):
    def total(self, shape=4):
        return np.full(shape, self.size * (self.size + 1) / 2, "float32")

    @unittest.skipUnless(gpu_of("torch"), "PyTorch with a GPU is missing")
    def test_tensors_on_the_gpu_are_reduced_and_gathered(self):
        import torch

        device = torch.device(str(unisono.device()))
        self.assertEqual(device.type, "cuda")
        for count in (1, 1000, 3_000_001):  # the last in pieces, where it goes through the host
            x = torch.full((count,), self.rank + 1.0, device=device)
            self.assertIs(unisono.all_reduce(x), x)
            self.same(x.cpu(), self.total(count))
            everyone = unisono.all_gather(torch.full((count,), float(self.rank), device=device))
            self.assertEqual((everyone.device, everyone.shape), (device, (self.size, count)))
            self.same(everyone[:, 0].cpu(), np.arange(self.size))
            self.same(everyone[:, -1].cpu(), np.arange(self.size))
        apart = torch.ones(6, 8, device=device).t()[::2]
        unisono.all_reduce(apart)
        self.same(apart.cpu(), np.full((4, 6), self.size))
        parts = unisono.reduce_scatter(torch.ones(1_000_000 * self.size, device=device))
        self.same(parts.cpu(), np.full(1_000_000, self.size))

    @unittest.skipUnless(gpu_of("torch"), "PyTorch with a GPU is missing")
    def test_work_on_a_side_stream_comes_first(self):
        import torch

        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                x = torch.zeros(1 << 20, device=str(unisono.device()))
                torch.cuda._sleep(1_000_000)
                x += self.rank + 1
                unisono.all_reduce(x)
                self.assertTrue(bool((x == self.size * (self.size + 1) / 2).all()))

    @unittest.skipUnless(gpu_of("torch"), "PyTorch with a GPU is missing")
    def test_memory_of_the_gpu_is_counted(self):
        import torch

        kept = torch.empty(256 << 20, dtype=torch.uint8, device=str(unisono.device()))
        self.assertGreaterEqual(unisono.gpu_mem_usage(), 256)
        del kept

    @unittest.skipUnless(gpu_of("cupy"), "CuPy with a GPU is missing")
    def test_arrays_of_cupy_are_reduced_and_gathered(self):
        import cupy

        x = cupy.full(4, self.rank + 1, "float32")
        unisono.all_reduce(x)
        self.same(x.get(), self.total())
        everyone = unisono.all_gather(cupy.full(3, self.rank, "float32"))
        self.assertIsInstance(everyone, cupy.ndarray)
        self.same(everyone.get(), np.repeat(np.arange(self.size), 3).reshape(self.size, 3))

    @unittest.skipUnless(gpu_of("numba"), "numba with a GPU is missing")
    def test_arrays_of_numba_are_reduced_in_place(self):
        import numba.cuda

        x = numba.cuda.to_device(np.full(4, self.rank + 1, "float32"))  # has __cuda_array_interface__ alone
        unisono.all_reduce(x)
        self.same(x.copy_to_host(), self.total())

    @unittest.skipUnless(gpu_of("torch"), "PyTorch with a GPU is missing")
    def test_a_call_within_the_capture_of_a_graph_is_unsupported(self):
        import torch

        x = torch.full((4,), self.rank + 1.0, device=str(unisono.device()))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            y = x * 2
            with self.assertRaisesRegex(unisono.Unsupported, "captured into a graph"):
                unisono.all_reduce(x)
        graph.replay()  # the capture is sound
        unisono.all_reduce(x)
        self.same(x.cpu(), self.total())
        self.same(y.cpu(), np.full(4, 2 * (self.rank + 1)))

    @unittest.skipUnless(gpu_of("jax"), "JAX with a GPU is missing")
    def test_arrays_of_jax_on_the_gpu_give_new_arrays(self):
        import jax
        import jax.numpy as jnp

        device = jax.devices("gpu")[0]
        for count in (4, 2_000_003):
            for dtype in ("float32", "bfloat16"):
                x = jax.device_put(jnp.full(count, self.rank + 1, dtype), device)
                blocks = np.repeat(np.arange(self.size) + 1.0, count).reshape(self.size, count)
                for call, expected in (
                    (unisono.all_reduce, self.total(count)),
                    (unisono.broadcast, np.full(count, 1.0)),
                    (unisono.all_gather, blocks),
                    (lambda a: unisono.all_gather_async(a).result(), blocks),
                ):
                    y = call(x)
                    self.assertIsInstance(y, jax.Array)
                    self.assertEqual((y.devices(), y.dtype), ({device}, x.dtype))
                    self.same(np.asarray(y, "float32"), expected.astype("float32"))
                    self.same(np.asarray(y * 2, "float32"), 2 * expected.astype("float32"))
                self.same(np.asarray(x, "float32"), np.full(count, self.rank + 1.0))


if __name__ == "__main__":
    main()
