"""unisono.horovod.torch against closed forms. Each rank runs the same cases: unisono run -n 3 -- python horovod_test.py"""

import json
import os
import pickle
import sys
import tempfile
import threading
import types
from unittest import mock

import torch
from covers import covers
from horovod_ranks import RankTest, adasum, distinct, run

import unisono.horovod.torch as hvd

REDUCED = {
    hvd.Sum: lambda every: every.sum(0),
    hvd.Average: lambda every: every.sum(0) / len(every) if every.is_floating_point() else every.sum(0).div(len(every), rounding_mode="trunc"),
    hvd.Min: lambda every: every.amin(0),
    hvd.Max: lambda every: every.amax(0),
    hvd.Product: lambda every: every.prod(0),
}


class Reductions(RankTest):
    def test_allreduce_combines_every_dtype_by_every_operation(self):
        for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
            for op, expected in REDUCED.items():
                for shape in ((), (0,), (7,), (3, 5)):
                    if op == hvd.Product and dtype.is_floating_point is False and dtype not in (torch.int32, torch.int64):
                        continue
                    own, every = distinct(self.rank, shape, dtype), self.every(shape, dtype)
                    wide = every.double() if dtype.is_floating_point else every.long()
                    result = hvd.allreduce(own, op=op)
                    self.assertEqual(result.dtype, dtype)
                    if dtype != torch.uint8 and dtype != torch.int8 or op in (hvd.Min, hvd.Max):
                        self.same(result.double(), expected(wide).double(), rtol=1e-2 if dtype.itemsize == 2 else 1e-6, atol=1e-6)
                    self.same(own, distinct(self.rank, shape, dtype))

    def test_in_place_async_grouped_and_scaled_calls_are_right(self):
        own, total = distinct(self.rank, (4, 3)), self.every((4, 3)).sum(0)
        x = own.clone()
        self.assertIs(hvd.allreduce_(x, op=hvd.Sum), x)
        self.same(x, total)
        x = own.t().clone().t()  # not contiguous
        hvd.allreduce_(x, op=hvd.Sum)
        self.same(x, total)
        handle = hvd.allreduce_async(own, name="scaled", op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
        self.same(hvd.synchronize(handle), total * 2)
        self.assertIsNone(hvd.synchronize(handle))
        with self.assertRaises(ValueError):
            hvd.poll(handle)
        self.same(hvd.allreduce(torch.tensor([3, -5]), op=hvd.Sum, prescale_factor=0.5), torch.tensor([1, -2]) * self.size)
        tensors = [own.clone(), distinct(self.rank, (2,), torch.int64), distinct(self.rank, (5,), torch.float64)]
        expected = [total, self.every((2,), torch.int64).sum(0), self.every((5,), torch.float64).sum(0)]
        for results in (hvd.grouped_allreduce(tensors, op=hvd.Sum), hvd.synchronize(hvd.grouped_allreduce_async(tensors, op=hvd.Sum))):
            [self.same(*pair) for pair in zip(results, expected)]
        for result, tensor, value in zip(hvd.grouped_allreduce_(tensors, op=hvd.Sum), tensors, expected):
            self.assertIs(result, tensor)
            self.same(result, value)
        with self.assertRaises(ValueError):
            hvd.allreduce(own, average=True, op=hvd.Sum)
        with self.assertWarns(DeprecationWarning):
            self.same(hvd.allreduce(own, average=False), total)

    def test_reducescatter_divides_unevenly(self):
        for rows in (1, self.size, 2 * self.size + 1, 7):
            every = self.every((rows, 3)).sum(0)
            begins = [0]
            for r in range(self.size):
                begins.append(begins[-1] + rows // self.size + (r < rows % self.size))
            mine = slice(begins[self.rank], begins[self.rank + 1])
            own = distinct(self.rank, (rows, 3))
            self.same(hvd.reducescatter(own, op=hvd.Sum), every[mine])
            self.same(hvd.reducescatter(own, prescale_factor=2.0), 2 * every[mine] / self.size, rtol=1e-6, atol=1e-6)
            self.same(hvd.synchronize(hvd.reducescatter_async(own, op=hvd.Sum)), every[mine])
            results = hvd.grouped_reducescatter([own, own * 2], op=hvd.Sum)
            self.same(results[1], 2 * every[mine])
        with self.assertRaises(ValueError):
            hvd.reducescatter(own, op=hvd.Max)

    @covers("R-09")
    def test_adasum_is_its_formula(self):
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
            vectors = [torch.randn(33, generator=torch.Generator().manual_seed(r), dtype=dtype) for r in range(self.size)]
            expected = torch.from_numpy(adasum([v.numpy() for v in vectors]))
            self.same(hvd.allreduce(vectors[self.rank], op=hvd.Adasum).double(), expected, rtol=tolerance, atol=tolerance)
        same = torch.tensor([3.0, 4.0])
        self.same(hvd.allreduce(same, op=hvd.Adasum), same, rtol=1e-6, atol=0)  # vectors that agree are averaged
        orthogonal = torch.eye(self.size)[self.rank]
        self.same(hvd.allreduce(orthogonal, op=hvd.Adasum), torch.ones(self.size))  # and orthogonal ones are added
        self.same(hvd.allreduce(torch.zeros(3), op=hvd.Adasum), torch.zeros(3))
        with self.assertRaises(ValueError):
            hvd.allreduce(torch.tensor([1]), op=hvd.Adasum)

    def test_compression_keeps_the_dtype_of_the_result(self):
        own = distinct(self.rank, (6,))
        for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
            result = hvd.allreduce(own, compression=compression, op=hvd.Sum)
            self.assertEqual(result.dtype, torch.float32)
            self.same(result, self.every((6,)).sum(0))
        self.assertEqual(hvd.Compression.fp16.compress(own)[0].dtype, torch.float16)
        self.same(hvd.allreduce(torch.tensor([70000]), compression=hvd.Compression.fp16), torch.tensor([70000]))

    def test_sparse_tensors_are_reduced_as_dense_ones(self):
        own = torch.sparse_coo_tensor([[0, self.rank + 1]], [[1.0, 2.0], [3.0, 4.0 + self.rank]], (self.size + 1, 2), check_invariants=False)
        for op, divisor in ((hvd.Sum, 1), (hvd.Average, self.size)):
            dense = hvd.allreduce(own.to_dense(), op=op)
            self.same(hvd.sparse_allreduce_async(own, "sparse", op)().to_dense(), dense, rtol=1e-6, atol=1e-6)


class Movements(RankTest):
    def test_allgather_puts_uneven_parts_together(self):
        for rows in ([2] * self.size, list(range(self.size)), [0] * self.size):
            expected = torch.cat([distinct(r, (n, 3)) for r, n in enumerate(rows)])
            own = distinct(self.rank, (rows[self.rank], 3))
            self.same(hvd.allgather(own), expected)
            self.same(hvd.synchronize(hvd.allgather_async(own, name="rows")), expected)
            first, second = hvd.grouped_allgather([own, own.long()])
            self.same(first, expected)
            self.same(second, expected.long())
        self.same(hvd.allgather(torch.tensor(self.rank)), torch.arange(self.size))

    def test_broadcast_gives_everybody_the_tensor_of_the_root(self):
        for root in range(self.size):
            own = distinct(self.rank, (2, 3))
            self.same(hvd.broadcast(own, root), distinct(root, (2, 3)))
            self.same(own, distinct(self.rank, (2, 3)))
            columns = own.t()
            self.assertIs(hvd.broadcast_(columns, root), columns)
            self.same(own, distinct(root, (2, 3)))
            self.same(hvd.synchronize(hvd.broadcast_async(own + self.rank, root)), distinct(root, (2, 3)) + root)
        with self.assertRaises(ValueError):
            hvd.broadcast(own, self.size)

    def test_alltoall_exchanges_even_and_uneven_parts(self):
        own = torch.arange(2 * self.size) + 100 * self.rank
        self.same(hvd.alltoall(own), torch.cat([torch.tensor([2 * self.rank, 2 * self.rank + 1]) + 100 * r for r in range(self.size)]))
        splits = torch.tensor([(self.rank + r) % 3 for r in range(self.size)], dtype=torch.int32)
        own = distinct(self.rank, (int(splits.sum()), 2))
        parts = []
        for r in range(self.size):
            theirs = [(r + to) % 3 for to in range(self.size)]
            parts.append(distinct(r, (sum(theirs), 2)).split(theirs)[self.rank])
        for output, received in (hvd.alltoall(own, splits), hvd.synchronize(hvd.alltoall_async(own, splits))):
            self.same(output, torch.cat(parts))
            self.same(received, splits)  # this pattern is symmetric
        self.assertEqual(hvd.alltoall(own, splits.tolist())[1].dtype, torch.int32)
        with self.assertRaises(ValueError):
            hvd.alltoall(own, [1] * (self.size + 1))

    def test_gradients_are_those_of_horovod(self):
        def gradient(function, shape=(self.size, 2)):
            x = distinct(self.rank, shape, torch.float64).requires_grad_()
            y = function(x)
            y.backward(torch.full_like(y, self.rank + 1))
            return x.grad

        total, average = self.size * (self.size + 1) / 2, (self.size + 1) / 2
        ones = torch.ones(self.size, 2, dtype=torch.float64)
        self.same(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum)), ones * total)
        self.same(gradient(hvd.allreduce), ones * average)
        self.same(gradient(lambda x: hvd.grouped_allreduce([x, x * 2], op=hvd.Sum)[1]), 2 * ones * total)
        self.same(gradient(hvd.allgather), ones * average)
        self.same(gradient(lambda x: hvd.broadcast(x, self.size - 1)), ones * average * (self.rank == self.size - 1))
        numbers = torch.arange(1.0, self.size + 1, dtype=torch.float64)[:, None].expand(-1, 2)
        self.same(gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum)), self.size * numbers)
        self.same(gradient(hvd.alltoall), numbers)
        uneven = [r + self.rank for r in range(self.size)]
        expected = torch.cat([torch.full((n,), r + 1.0) for r, n in enumerate(uneven)]).double()[:, None].expand(-1, 2)
        self.same(gradient(lambda x: hvd.alltoall(x, uneven)[0], (sum(uneven), 2)), expected)
        x = torch.ones(2, requires_grad=True)
        with self.assertRaises(NotImplementedError):
            hvd.allreduce(x, op=hvd.Max).sum().backward()


class Names(RankTest):
    def test_ranks_may_call_in_different_orders(self):
        names = [f"t{i}" for i in range(30)]
        order = names[self.rank :] + names[: self.rank]
        handles = {name: hvd.allreduce_async(torch.tensor([float(name[1:]) + self.rank]), name=name, op=hvd.Sum) for name in order}
        for name in reversed(names):
            expected = self.size * float(name[1:]) + self.size * (self.size - 1) / 2
            self.assertEqual(hvd.synchronize(handles[name]).item(), expected)

    def test_a_hundred_calls_with_long_names_are_right(self):
        handles = [hvd.allreduce_async(torch.tensor([i]), name="n" * 500 + str(i), op=hvd.Sum) for i in range(100)]
        self.assertEqual([hvd.synchronize(handle).item() for handle in handles], [i * self.size for i in range(100)])

    def test_calls_that_do_not_fit_are_errors_on_all_ranks_and_the_next_is_fine(self):
        if self.size == 1:
            self.skipTest("needs two ranks")
        odd = self.rank == 0
        wrong = {
            "the shape": lambda: hvd.allreduce(torch.ones(2 + odd), name="shape"),
            "the dtypes": lambda: hvd.allreduce(torch.ones(2, dtype=torch.float64 if odd else torch.float32), name="dtype"),
            "op is": lambda: hvd.allreduce(torch.ones(2), name="op", op=hvd.Sum if odd else hvd.Max),
            "prescale_factor": lambda: hvd.allreduce(torch.ones(2), name="pre", prescale_factor=1.0 + odd),
            "root_rank": lambda: hvd.broadcast(torch.ones(2), int(odd), name="root"),
            "the shape is": lambda: hvd.allgather(torch.ones(2, 3 + odd), name="columns"),
        }
        for text, call in wrong.items():
            with self.assertRaisesRegex(hvd.HorovodInternalError, text):
                call()
        self.same(hvd.allreduce(torch.ones(2)), torch.ones(2))

    def test_a_name_in_use_is_refused_and_poll_says_whether_it_is_done(self):
        if self.size == 1:
            self.skipTest("needs two ranks")
        x = torch.ones(2)
        if self.rank == 0:
            handle = hvd.allreduce_async(x, name="twice", op=hvd.Sum)
            for kind in (ValueError, hvd.HorovodInternalError, RuntimeError):
                with self.assertRaises(kind):
                    hvd.allreduce_async(x, name="twice", op=hvd.Sum)
            self.assertFalse(hvd.poll(handle))
        hvd.barrier()
        if self.rank != 0:
            handle = hvd.allreduce_async(x, name="twice", op=hvd.Sum)
        hvd.barrier()
        self.same(hvd.synchronize(handle), x * self.size)


class Joining(RankTest):
    def test_ranks_that_have_joined_count_as_nothing(self):
        for step in range(self.rank + 1):
            here = self.size - step  # ranks that have not joined
            self.assertEqual(hvd.allreduce(torch.tensor([2.0]), op=hvd.Sum).item(), 2 * here)
            self.same(hvd.allreduce(torch.tensor([2.0])), torch.tensor([2.0 * here / self.size]), rtol=1e-6, atol=0)
            self.assertEqual(hvd.allreduce(torch.tensor([5]), op=hvd.Min).item(), 5)
            self.assertEqual(hvd.allreduce(torch.tensor([-5.0]), op=hvd.Max).item(), -5)
            self.assertEqual(hvd.allreduce(torch.tensor([3]), op=hvd.Product).item(), 3**here)
            self.same(hvd.allreduce(torch.tensor([3.0, 4.0]), op=hvd.Adasum), torch.tensor([3.0, 4.0]), rtol=1e-6, atol=0)
            if step > 0:
                x = torch.ones(self.size)
                for call in (hvd.reducescatter, hvd.allgather, hvd.alltoall, lambda x: hvd.broadcast(x, self.size - 1)):
                    self.assertRaisesRegex(hvd.HorovodInternalError, "rank 0 has joined", call, x)
            hvd.barrier()
        self.assertEqual(hvd.join(), self.size - 1)
        self.assertEqual(hvd.allreduce(torch.tensor([1]), op=hvd.Sum).item(), self.size)

    def test_join_of_all_ranks_at_once_names_one_of_them(self):
        self.assertIn(hvd.join(), range(self.size))


class ProcessSets(RankTest):
    def test_a_process_set_calls_without_the_others(self):
        if self.size == 1:
            self.skipTest("needs two ranks")
        last = hvd.ProcessSet([self.size - 1])
        self.assertIsNone(last.size())
        self.assertIs(hvd.add_process_set(last), last)
        rest = hvd.add_process_set(list(range(self.size - 1)))
        mine = last if self.rank == self.size - 1 else rest
        self.assertTrue(mine.included())
        self.assertEqual((mine.size(), mine.rank()), (1, 0) if mine is last else (self.size - 1, self.rank))
        self.same(hvd.allreduce(torch.tensor([self.rank]), op=hvd.Sum, process_set=mine), torch.tensor([sum(mine.ranks)]))
        self.same(hvd.allgather(torch.tensor([self.rank]), process_set=mine), torch.tensor(mine.ranks))
        root = mine.ranks[-1]  # a rank of the job
        self.assertEqual(hvd.broadcast(torch.tensor([self.rank]), root, process_set=mine).item(), root)
        self.assertEqual(hvd.broadcast_object({"rank": self.rank}, root, process_set=mine), {"rank": root})
        hvd.barrier(process_set=mine)
        other = rest if mine is last else last
        self.assertFalse(other.included())
        for kind in (ValueError, hvd.HorovodInternalError):
            with self.assertRaisesRegex(kind, "not included"):
                hvd.allreduce(torch.ones(1), process_set=other)
            with self.assertRaisesRegex(kind, "not in"):
                hvd.broadcast(torch.ones(1), other.ranks[0], process_set=mine)
        with self.assertRaisesRegex(ValueError, "duplicate"):
            hvd.add_process_set([self.size - 1])
        for process_set in (last, rest):
            self.assertTrue(hvd.remove_process_set(process_set))
            self.assertIsNone(process_set.size())
        self.assertFalse(hvd.remove_process_set(last))
        self.assertFalse(hvd.remove_process_set(hvd.global_process_set))
        with self.assertRaises(ValueError):
            hvd.allreduce(torch.ones(1), process_set=last)
        with self.assertRaises(ValueError):
            hvd.add_process_set([self.size])

    def test_the_global_process_set_has_all_ranks(self):
        self.assertEqual((hvd.global_process_set.process_set_id, hvd.global_process_set.ranks), (0, list(range(self.size))))


class Objects(RankTest):
    def test_objects_are_broadcast_and_gathered(self):
        for root in range(self.size):
            self.assertEqual(hvd.broadcast_object({"é" * self.rank: self.rank}, root), {"é" * root: root})
        self.assertEqual(hvd.allgather_object(["x"] * self.rank), [["x"] * r for r in range(self.size)])

    def test_what_cannot_be_pickled_is_an_error_on_every_rank(self):
        bad = threading.Lock()  # cloudpickle takes none either
        for root in range(self.size):
            with self.assertRaises(TypeError if self.rank == root else ValueError) as raised:
                hvd.broadcast_object(bad if self.rank == root else None, root)
            self.assertIn("lock", str(raised.exception))
            with self.assertRaises(TypeError if self.rank == root else ValueError) as raised:
                hvd.allgather_object(bad if self.rank == root else 5)
            self.assertIn("lock" if self.rank == root else f"rank {root} cannot take part: TypeError", str(raised.exception))
        self.assertEqual(hvd.broadcast_object(self.rank, 0), 0)

    def test_cloudpickle_writes_objects_where_it_is_installed(self):
        # A stand-in for the package: what it writes of a function is read by pickle alone, as with the original.
        installed = types.ModuleType("cloudpickle")
        installed.dumps = lambda value, protocol: pickle.dumps((abs, -value()), protocol=protocol)
        with mock.patch.dict(sys.modules, cloudpickle=installed):
            received = hvd.broadcast_object(lambda: 7, 0)
            self.assertEqual(received() if self.rank == 0 else received, 7 if self.rank == 0 else (abs, -7))
            self.assertEqual(hvd.allgather_object(lambda: self.rank), [(abs, -r) for r in range(self.size)])
        with mock.patch.dict(sys.modules, cloudpickle=None), self.assertRaises(Exception) as raised:
            hvd.broadcast_object(lambda: 7, 0)
        self.assertIn("pickle", str(raised.exception))

    @mock.patch.dict(os.environ, UNISONO_PICKLE="off")
    def test_pickles_are_refused_where_they_are_forbidden(self):
        for call in (lambda: hvd.broadcast_object(5, 0), lambda: hvd.allgather_object(5)):
            with self.assertRaisesRegex(ValueError, "UNISONO_PICKLE=off"):
                call()
        self.same(hvd.broadcast(torch.ones(1), 0), torch.ones(1))

    def test_the_timeline_holds_the_calls_of_rank_0(self):
        path = os.path.join(tempfile.mkdtemp(), "timeline.json")
        hvd.start_timeline(path)
        hvd.allreduce(torch.ones(1), name="seen")
        hvd.barrier()
        hvd.stop_timeline()
        if self.rank == 0:
            with open(path) as file:
                events = json.load(file)
            self.assertIn("allreduce.seen", [event["args"]["tensor"] for event in events if event])

    def test_ranks_sizes_and_builds_are_told(self):
        self.assertEqual((hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()), (self.rank, self.size, 0, 1))
        self.assertTrue(hvd.is_homogeneous() and hvd.is_initialized())
        built = [hvd.mpi_built(), hvd.mpi_enabled(), hvd.gloo_built(), hvd.gloo_enabled(), hvd.ddl_built(), hvd.ccl_built(), hvd.mpi_threads_supported()]
        self.assertEqual(built, [False] * 7)
        self.assertEqual((bool(hvd.nccl_built()), hvd.cuda_built()), (torch.cuda.is_available(), torch.version.cuda is not None))


if __name__ == "__main__":
    run()
