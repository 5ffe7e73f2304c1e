"""What counts as a buffer: everything with the buffer protocol or DLPack, in any shape; and what is refused, with which error."""

import array
import gc
import importlib.util
import os
import tempfile
import unittest
import weakref

import numpy as np

import unisono
from ranks import RankTest, distinct, main


os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2 " + os.environ.get("XLA_FLAGS", "")  # before JAX is imported


def has(module):
    return importlib.util.find_spec(module) is not None


class Protocol(RankTest):
    def test_buffers_of_python_are_reduced_in_place(self):
        total = self.size * (self.size + 1) // 2
        for x in (bytearray([self.rank + 1] * 5), memoryview(bytearray([self.rank + 1] * 5)), array.array("d", [self.rank + 1.0] * 5)):
            self.assertIs(unisono.all_reduce(x), x)
            self.assertEqual(list(x), [total] * 5)
        x = array.array("q", [self.rank, -self.rank])
        unisono.all_reduce(x, "max")
        self.assertEqual(list(x), [self.size - 1, 0])

        empty = array.array("d")
        self.assertIs(unisono.all_reduce(empty), empty)

    def test_bytes_are_read(self):
        out = bytearray(3 * self.size)
        unisono.all_gather(bytes([self.rank] * 3), out)
        self.assertEqual(out, b"".join(bytes([r] * 3) for r in range(self.size)))
        self.refused(unisono.InvalidArgument, "read-only", unisono.all_reduce, memoryview(b"abc"))

    def test_strided_views_are_worked_on_where_they_lie(self):
        base = np.zeros((6, 8)) - 1
        for view in (base[::2, 1::3], base.T, base[::-1, ::-1], base[:, 3]):
            view[...] = np.arange(view.size).reshape(view.shape) + self.rank
            expected = np.arange(view.size).reshape(view.shape) * self.size + sum(range(self.size))
            unisono.all_reduce(view)
            self.same(view, expected)
        fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3) + self.rank)
        self.same(unisono.all_gather(fortran)[self.size - 1], np.arange(6.0).reshape(2, 3) + self.size - 1)
        self.same(unisono.all_reduce(np.broadcast_to(np.float64(self.rank), (4,)), out=np.empty(4)), np.full(4, sum(range(self.size))))

    def test_an_array_without_dimensions_is_one_element(self):
        x = np.array(self.rank + 1.0)
        unisono.all_reduce(x)
        self.assertEqual(x, self.size * (self.size + 1) / 2)

    def test_halves_are_summed_in_place(self):
        x = np.full(9, self.rank + 1, "float16")
        unisono.all_reduce(x)
        self.same(x, np.full(9, self.size * (self.size + 1) / 2, "float16"))

    @unittest.skipUnless(has("ml_dtypes"), "ml_dtypes is not installed")
    def test_bfloat16_of_ml_dtypes_is_summed_and_gathered(self):
        import ml_dtypes

        x = np.full((3, 4), self.rank + 1, ml_dtypes.bfloat16)
        unisono.all_reduce(x[:, ::2])
        total = self.size * (self.size + 1) / 2
        self.same(x.astype("float32"), np.tile([total, self.rank + 1], (3, 2)))
        gathered = unisono.all_gather(x[0, :2])
        self.assertEqual(gathered.dtype, ml_dtypes.bfloat16)
        number = unisono.all_reduce(ml_dtypes.bfloat16(self.rank + 1))
        self.assertIs(type(number), ml_dtypes.bfloat16)
        self.assertEqual(number, total)
        self.refused(unisono.InvalidArgument, "float8", unisono.all_reduce, np.ones(3, ml_dtypes.float8_e4m3fn))

    def test_arrays_in_shared_memory_are_reduced(self):
        x = unisono.shared_array((100, 3), "int32")
        self.assertEqual(x.sum(), 0)
        x += self.rank + 1
        self.assertIn(unisono.is_shared(x), (True, False))
        self.assertFalse(unisono.is_shared(np.ones(3)))
        unisono.all_reduce(x)
        self.same(x, np.full((100, 3), self.size * (self.size + 1) // 2))


class Refused(RankTest):
    def test_an_object_that_is_no_buffer_is_refused(self):
        self.refused(unisono.InvalidArgument, "a list", unisono.all_reduce, [1, 2])
        self.refused(unisono.InvalidArgument, "a str", unisono.all_reduce, "text")
        self.refused(unisono.InvalidArgument, "a NoneType", unisono.all_reduce, None)
        self.refused(unisono.InvalidArgument, "a dict", unisono.send, {}, 0)
        self.refused(ValueError, "a set", unisono.scan, set())

    def test_elements_without_a_dtype_are_refused(self):
        for x in (np.array([object()]), np.array(["ab"]), np.array([1], "datetime64[s]"), np.ones(3, np.longdouble), np.ones(3, ">f4"),
                  np.ones(3, "f4,i4")):
            error = self.refused(unisono.InvalidArgument, "no operation is on elements", unisono.all_reduce, x)
            self.assertEqual(error.operation, "all_reduce")
        record = np.zeros(3, [("a", "i1"), ("b", "f8")])
        self.refused(unisono.InvalidArgument, "give a copy", unisono.all_reduce, record["b"])

    def test_a_read_only_output_is_refused(self):
        x = np.ones(3)
        x.flags.writeable = False
        error = self.refused(unisono.InvalidArgument, "read-only", unisono.all_reduce, x)
        self.assertIn("copy", error.hint)
        for call in (unisono.scan, unisono.all_reduce_async, lambda x: unisono.recv(x, 0), lambda x: unisono.broadcast(x, (self.rank + 1) % self.size)):
            if self.size > 1 or call is unisono.scan:
                self.refused(unisono.InvalidArgument, "read-only", call, x)

    def test_what_is_only_read_may_be_read_only(self):
        # Memory that no process can write to: a rank that did would be killed.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.npy")
            np.save(path, self.mine((20_000,)))
            mine, again, total = np.load(path, mmap_mode="r"), np.load(path, mmap_mode="r"), sum(self.all((20_000,)))
            for root in range(self.size):
                x = mine if self.rank == root else np.empty(20_000)
                self.assertIs(unisono.broadcast(x, root), x)
                self.same(x, distinct(root, (20_000,)))
                x = mine if self.rank == root else np.empty(20_000)
                self.assertIs(unisono.broadcast_async(x, root).result(), x)
                self.same(x, distinct(root, (20_000,)))
                for reduce in (unisono.reduce, lambda x, dst: unisono.reduce_async(x, dst).result()):
                    result = reduce(mine.copy() if self.rank == root else mine, root)
                    if self.rank == root:
                        self.same(result, total)
                    else:
                        self.assertIsNone(result)
                second = np.empty(20_000)
                unisono.broadcast_multigpu([mine if self.rank == root else np.empty(20_000), second], root)
                self.same(second, distinct(root, (20_000,)))
                first = np.array(mine)
                unisono.reduce_multigpu([first if self.rank == root else mine, again], root)
                if self.rank == root:
                    self.same(first, 2 * total)
                parts = unisono.gather(mine, dst=root)
                if self.rank == root:
                    self.same(parts[-1], distinct(self.size - 1, (20_000,)))
                self.same(unisono.scatter(np.stack([mine] * self.size) if self.rank == root else None, np.empty(20_000), root), distinct(root, (20_000,)))
            self.same(unisono.all_gather(mine)[-1], distinct(self.size - 1, (20_000,)))
            self.same(unisono.all_reduce(mine, out=np.empty(20_000)), total)
            if self.size > 1:
                right, left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
                received = np.empty(20_000)
                unisono.send_recv(mine, right, received, left)
                self.same(received, distinct(left, (20_000,)))
                unisono.wait_all(unisono.batch([unisono.P2POp.send(mine, right), unisono.P2POp.recv(received, left)]))
            unisono.barrier()

    def test_lists_of_the_wrong_length_or_dtype_are_refused(self):
        x = np.ones(3)
        self.refused(unisono.InvalidArgument, "", unisono.all_gather, x, [np.ones(3) for _ in range(self.size + 1)])
        self.refused(unisono.InvalidArgument, "", unisono.all_gather, x, [np.ones(4) for _ in range(self.size)])
        self.refused(unisono.InvalidArgument, "", unisono.all_gather, x, [np.ones(3, "f4") for _ in range(self.size)])
        self.refused(unisono.InvalidArgument, "", unisono.all_reduce_multigpu, [np.ones(3), np.ones(4)])
        self.refused(unisono.InvalidArgument, "", unisono.all_gather, x, np.ones(3 * self.size + 1))
        self.refused(unisono.InvalidArgument, "not all of these are Works", unisono.wait_all, [1])

    def test_arguments_in_the_wrong_place_are_named(self):
        x = np.ones(3)
        self.refused(unisono.InvalidArgument, "stands where the operation is meant", unisono.all_reduce, x, unisono.world())
        error = self.refused(unisono.InvalidArgument, "stands where the operation is meant", unisono.all_reduce, x, np.ones(3))
        self.assertIn("out=", error.hint)
        self.refused(unisono.InvalidArgument, "where the group is meant", unisono.all_reduce, x, "sum", 7)
        self.refused(unisono.InvalidArgument, "maximal", unisono.all_reduce, x, "maximal")
        self.refused(unisono.InvalidArgument, "where a rank is meant", unisono.broadcast, x, "0")
        self.refused(unisono.InvalidArgument, "", unisono.broadcast, x, self.size)
        self.refused(unisono.InvalidArgument, "timeout", unisono.all_reduce, x, timeout=-1)
        self.refused(unisono.InvalidArgument, "timeout", unisono.all_reduce, x, timeout="soon")
        self.refused(unisono.InvalidArgument, "", unisono.all_reduce, np.ones(3, "complex64"), "max")
        self.refused(unisono.InvalidArgument, "counts", unisono.all_gather_v, x, np.ones(3), ["a"])
        with self.assertRaises(TypeError):
            unisono.all_reduce(x, oop=np.ones(3))
        self.assertEqual(unisono.all_reduce(1), self.size)  # the group is as usable as before


class OnAGpu:
    """An array of a GPU, as far as anybody can see who does not touch its memory."""

    def __init__(self):
        self.__cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (0x7F0000000000, False), "version": 3}


class NoEngine(RankTest):
    """The backend "native" has no engine for GPUs, wherever this runs."""

    def test_memory_of_a_gpu_is_unsupported_without_an_engine_for_it(self):
        x = OnAGpu()
        group = unisono.new_group(list(range(self.size)), backend="native")
        for call in (unisono.all_reduce, unisono.scan, lambda x, **how: unisono.broadcast(x, 0, **how)):
            error = self.refused(unisono.Unsupported, "cuda:0", call, x, group=group)
            self.assertIsInstance(error, NotImplementedError)
        self.refused(unisono.Unsupported, "cuda:0", unisono.all_gather, np.ones(3, "f4"), OnAGpu(), group=group)
        if not has("cupy"):
            error = self.refused(unisono.Unsupported, "CuPy, which makes it, is not installed", unisono.all_gather, x, group=group)
            self.assertIn("out=", error.hint)
        self.assertEqual(unisono.all_reduce(1, group=group), self.size)


class Lifetime(RankTest):
    def test_a_buffer_is_held_no_longer_than_the_call(self):
        x = bytearray(8)
        unisono.all_reduce(x)
        x.extend(b"more")  # BufferError where somebody still has it
        work = unisono.all_reduce_async(x)
        work.wait()
        x.extend(b"more")
        work = unisono.all_reduce_async(x)
        while not work.is_completed():
            pass
        x.extend(b"more")

    def test_a_work_that_is_dropped_keeps_its_buffer(self):
        x = np.ones(100000)
        gone = weakref.ref(x)
        unisono.all_reduce_async(x)
        del x
        unisono.barrier()
        unisono.all_reduce_async(np.ones(1)).wait()
        unisono.barrier_async().wait()
        gc.collect()
        self.assertIsNone(gone())


@unittest.skipUnless(has("torch"), "PyTorch is not installed")
class Torch(RankTest):
    def setUp(self):
        super().setUp()
        import torch

        self.torch = torch

    def test_tensors_of_every_dtype_are_reduced_in_place(self):
        torch, total = self.torch, self.size * (self.size + 1) // 2
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.uint8, torch.complex64):
            x = torch.full((3, 4), self.rank + 1, dtype=dtype)
            self.assertIs(unisono.all_reduce(x), x)
            self.assertTrue(torch.equal(x, torch.full((3, 4), total, dtype=dtype)), dtype)
        x = torch.full((4, 6), self.rank + 1)
        unisono.all_reduce(x[:, ::2])
        self.assertEqual(x[0].tolist(), [total, self.rank + 1] * 3)
        unisono.all_reduce(x.t())
        mask = torch.tensor([self.rank == 0, False])
        self.assertEqual(unisono.all_reduce(mask).tolist(), [True, False])

    def test_results_of_tensors_are_new_tensors(self):
        result = unisono.all_gather(self.torch.full((2,), self.rank, dtype=self.torch.bfloat16))
        self.assertIsInstance(result, self.torch.Tensor)
        self.assertEqual(result.dtype, self.torch.bfloat16)
        self.assertEqual(result.tolist(), [[r, r] for r in range(self.size)])
        result, counts = unisono.all_gather_v(self.torch.arange(self.rank + 1))
        self.assertEqual((len(result), counts), (sum(counts), [r + 1 for r in range(self.size)]))

    def test_parameters_that_require_gradients_are_reduced(self):
        parameter = self.torch.nn.Parameter(self.torch.full((3,), self.rank + 1.0))
        unisono.all_reduce(parameter)
        self.assertEqual(parameter.tolist(), [self.size * (self.size + 1) / 2] * 3)
        model = self.torch.nn.Linear(3, 2)
        for p in model.parameters():
            p.grad = self.torch.full_like(p, self.rank)
        unisono.all_reduce_params([p.grad for p in model.parameters()], op="avg")
        self.assertEqual(model.weight.grad.unique().tolist(), [(self.size - 1) / 2])

    def test_tensors_travel_within_objects(self):
        for x in unisono.all_gather_object({"weights": self.torch.ones(1000)}):
            self.assertEqual(x["weights"].sum(), 1000)


class OnlyDLPack:
    """An array of a library that knows nothing but DLPack."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **how):
        return self.x.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


class OldDLPack(OnlyDLPack):
    def __dlpack__(self, stream=None):
        return self.x.__dlpack__()


class DLPack(RankTest):
    def test_arrays_of_any_library_with_dlpack_are_reduced(self):
        for kind in (OnlyDLPack, OldDLPack):
            for dtype in ("bool", "int8", "uint16", "int64", "float16", "float32", "complex64"):
                x = np.ones((2, 3), dtype)[:, ::2]
                self.assertIsInstance(unisono.all_reduce(kind(x)), kind)
                self.same(x, np.full((2, 2), self.size).astype(dtype), dtype)

    def test_a_read_only_array_is_refused_as_output(self):
        x = np.ones(3)
        x.flags.writeable = False
        self.refused(unisono.InvalidArgument, "read-only", unisono.all_reduce, OnlyDLPack(x))
        self.same(unisono.all_reduce(OnlyDLPack(x), out=np.empty(3)), np.full(3, self.size))

    @unittest.skipUnless(has("jax"), "JAX is not installed")
    def test_arrays_of_jax_stay_as_they_are_and_results_are_new(self):
        import jax
        import jax.numpy as jnp

        x = jnp.full(4, self.rank + 1.0)
        total = unisono.all_reduce(x)
        self.assertIsInstance(total, jax.Array)
        self.same(total, np.full(4, self.size * (self.size + 1) / 2))
        self.same(x, np.full(4, self.rank + 1.0))
        for result, expected in (
            (unisono.all_gather(x), np.stack([np.full(4, r + 1.0) for r in range(self.size)])),
            (unisono.all_gather_v(x)[0], np.repeat(np.arange(self.size) + 1.0, 4)),
            (unisono.reduce_scatter(jnp.ones(3 * self.size)), np.full(3, self.size)),
            (unisono.all_gather_async(x).result(), np.stack([np.full(4, r + 1.0) for r in range(self.size)])),
            (unisono.all_reduce(jnp.ones(3, "bfloat16")), np.full(3, self.size)),
        ):
            self.assertIsInstance(result, jax.Array)
            self.same(np.asarray(result, "float32"), expected.astype("float32"))

    @unittest.skipUnless(has("jax"), "JAX is not installed")
    def test_jax_results_are_where_the_input_is(self):
        import jax

        devices = jax.devices("cpu")
        self.assertGreater(len(devices), 1)  # by XLA_FLAGS, above
        for device in devices:
            x = jax.device_put(np.full(4, self.rank + 1.0, "float32"), device)
            for call in (unisono.all_reduce, unisono.broadcast, unisono.scan, unisono.all_gather):
                with self.subTest(call=call.__name__, device=str(device)):
                    self.assertEqual(call(x).devices(), {device})

    @unittest.skipUnless(has("pyarrow"), "pyarrow is not installed")
    def test_arrays_of_pyarrow_are_gathered(self):
        import pyarrow

        out = np.empty(3 * self.size, "int64")
        unisono.all_gather(pyarrow.array([self.rank] * 3), out)
        self.same(out, np.repeat(np.arange(self.size), 3))


if __name__ == "__main__":
    main()
