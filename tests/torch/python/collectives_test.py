"""Every call of torch.distributed, its results computed here from the values of all ranks. Run as several ranks."""

import functools
import operator
import threading

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from covers import covers
from ranks import RankTest, distinct, main

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


class Collectives(RankTest):
    def every(self, shape, dtype=torch.float32):
        return [distinct(r, shape, dtype) for r in range(self.size)]

    def test_all_reduce_of_every_dtype(self):
        for dtype in FLOATS + INTEGERS + [torch.complex64, torch.complex128]:
            x = distinct(self.rank, (3, 5), dtype)
            dist.all_reduce(x)
            self.same(x, sum(self.every((3, 5), dtype)).to(dtype), str(dtype))

    def test_all_reduce_with_every_operation(self):
        op = dist.ReduceOp
        fold = {
            op.SUM: operator.add, op.PRODUCT: operator.mul, op.MIN: torch.minimum, op.MAX: torch.maximum,
            op.BAND: operator.and_, op.BOR: operator.or_, op.BXOR: operator.xor,
        }
        for kind, f in fold.items():
            x = distinct(self.rank, (4, 4), torch.int64)
            dist.all_reduce(x, kind)
            self.same(x, functools.reduce(f, self.every((4, 4), torch.int64)), str(kind))
        x = distinct(self.rank, (9,), torch.float64)
        dist.all_reduce(x, op.AVG)
        self.close(x, sum(self.every((9,), torch.float64)) / self.size)
        for dtype in (torch.bool,):
            x = distinct(self.rank, (31,), dtype)
            dist.all_reduce(x, op.BAND)
            self.same(x, functools.reduce(operator.and_, self.every((31,), dtype)))

    @covers("R-10")
    def test_premultiplied_sum(self):
        for factor in (2.0, torch.tensor(3.0)):
            scaled = dist._make_nccl_premul_sum(factor)
            x = distinct(self.rank, (2, 3))
            dist.all_reduce(x, scaled)
            self.same(x, sum(float(factor) * y for y in self.every((2, 3))))
            out = torch.empty(3)
            dist.reduce_scatter_tensor(out, distinct(self.rank, (3 * self.size,)), scaled)
            self.same(out, sum(float(factor) * y for y in self.every((3 * self.size,)))[3 * self.rank : 3 * self.rank + 3])
            dist.reduce_scatter(out, [distinct(self.rank + r, (3,)) for r in range(self.size)], scaled)
            self.same(out, sum(float(factor) * distinct(s + self.rank, (3,)) for s in range(self.size)))

    def test_strides_and_empty(self):
        x = distinct(self.rank, (6, 4)).t()
        dist.all_reduce(x)
        self.same(x, sum(self.every((6, 4))).t())
        x = distinct(self.rank, (4, 8))[:, ::2]
        dist.broadcast(x, 0)
        self.same(x, distinct(0, (4, 8))[:, ::2])
        x = torch.empty(0)
        dist.all_reduce(x)
        scalar = torch.tensor(float(self.rank + 1))
        dist.all_reduce(scalar)
        self.same(scalar, torch.tensor(float(self.size * (self.size + 1) // 2)))

    def test_version_counters_and_autograd(self):
        x = distinct(self.rank, (3,)).requires_grad_()
        y = x * x
        before = y._version
        dist.all_reduce(y)
        self.assertGreater(y._version, before)

    def test_rooted(self):
        for root in range(self.size):
            x = distinct(self.rank, (5, 2))
            dist.reduce(x, root)
            self.same(x, sum(self.every((5, 2))) if self.rank == root else distinct(self.rank, (5, 2)))
            x = distinct(self.rank, (5, 2))
            dist.broadcast(x, root)
            self.same(x, distinct(root, (5, 2)))
            parts = [torch.empty(2, 2) for _ in range(self.size)] if self.rank == root else None
            dist.gather(distinct(self.rank, (2, 2)), parts, dst=root)
            if parts:
                self.same(parts, self.every((2, 2)))
            out = torch.empty(2, 3)
            dist.scatter(out, [distinct(root + 7 * r, (2, 3)) for r in range(self.size)] if self.rank == root else None, src=root)
            self.same(out, distinct(root + 7 * self.rank, (2, 3)))

    def test_all_gather(self):
        parts = [torch.empty(3, 2) for _ in range(self.size)]
        dist.all_gather(parts, distinct(self.rank, (3, 2)))
        self.same(parts, self.every((3, 2)))
        whole = torch.empty(self.size * 3, 2)
        dist.all_gather_into_tensor(whole, distinct(self.rank, (3, 2)))
        self.same(whole, torch.cat(self.every((3, 2))))
        dist.all_gather(list(whole.zero_().chunk(self.size)), distinct(self.rank, (3, 2)))
        self.same(whole, torch.cat(self.every((3, 2))))
        uneven = [torch.empty(r + 1, 2) for r in range(self.size)]
        dist.all_gather(uneven, distinct(self.rank, (self.rank + 1, 2)))
        self.same(uneven, [distinct(r, (r + 1, 2)) for r in range(self.size)])
        small = [torch.empty(4, dtype=torch.float8_e4m3fn) for _ in range(self.size)]
        dist.all_gather(small, distinct(self.rank, (4,)).to(torch.float8_e4m3fn))
        self.same([t.float() for t in small], [distinct(r, (4,)).to(torch.float8_e4m3fn).float() for r in range(self.size)])

    def test_lists_on_a_device(self):
        if torch.cuda.device_count() < self.size:
            self.skipTest(f"missing on this machine: {self.size} GPUs")
        torch.cuda.set_device(self.rank)
        x = distinct(self.rank, (3, 2)).cuda()
        parts = [torch.empty(3, 2, device="cuda") for _ in range(self.size)]
        dist.all_gather(parts, x)
        self.same([t.cpu() for t in parts], self.every((3, 2)))
        apart = [torch.empty(2, 3, device="cuda").t() for _ in range(self.size)]
        dist.all_gather(apart, x, async_op=True).wait()
        self.same([t.cpu() for t in apart], self.every((3, 2)))
        uneven = [torch.empty(r + 1, 2, device="cuda") for r in range(self.size)]
        dist.all_gather(uneven, distinct(self.rank, (self.rank + 1, 2)).cuda())
        self.same([t.cpu() for t in uneven], [distinct(r, (r + 1, 2)) for r in range(self.size)])
        out = torch.empty(3, device="cuda")
        for op, factor in ((dist.ReduceOp.SUM, 1), (dist._make_nccl_premul_sum(2.0), 2)):
            dist.reduce_scatter(out, [distinct(self.rank + r, (3,)).cuda() for r in range(self.size)], op)
            self.same(out.cpu(), factor * sum(distinct(s + self.rank, (3,)) for s in range(self.size)))
        whole = torch.arange(2, device="cuda") + self.rank
        dist.all_reduce(whole, dist.ReduceOp.AVG)  # through the host
        self.same(whole.cpu(), (2 * torch.arange(2) + self.size - 1) * self.size // 2 // self.size)
        columns = distinct(self.rank, (6, 4)).cuda().t()
        dist.all_reduce(columns)
        self.same(columns.cpu(), sum(self.every((6, 4))).t())

    def test_lists_of_another_shape_are_refused(self):
        def refused(call, *arguments, **more):
            with self.assertRaisesRegex(ValueError, r"shape"):
                call(*arguments, **more)

        turned, flat = ([torch.zeros(shape) for _ in range(self.size)] for shape in ((3, 2), (6,)))
        x = distinct(self.rank, (2, 3))
        for parts in (turned, flat):
            refused(dist.all_gather, parts, x)
            self.same(parts, [torch.zeros_like(parts[0])] * self.size)
            refused(dist.reduce_scatter, torch.zeros(2, 3), parts)
            if self.rank == 0:  # the others have no list
                refused(dist.gather, x, parts, dst=0)
                refused(dist.scatter, torch.zeros(2, 3), parts, src=0)
        uneven = [torch.zeros(r + 1, 2) for r in range(self.size)]
        uneven[self.rank] = torch.zeros(2, self.rank + 1) if self.rank != 1 else torch.zeros(4)
        refused(dist.all_gather, uneven, distinct(self.rank, (self.rank + 1, 2)))
        parts = [torch.empty(2, 3) for _ in range(self.size)]
        dist.all_gather(parts, x)
        self.same(parts, self.every((2, 3)))

    def test_reduce_scatter(self):
        out = torch.empty(2, 2)
        dist.reduce_scatter(out, [distinct(self.rank + 3 * r, (2, 2)) for r in range(self.size)])
        self.same(out, sum(distinct(s + 3 * self.rank, (2, 2)) for s in range(self.size)))
        dist.reduce_scatter_tensor(out, distinct(self.rank, (2 * self.size, 2)), dist.ReduceOp.AVG)
        self.close(out, (sum(self.every((2 * self.size, 2))) / self.size)[2 * self.rank : 2 * self.rank + 2])
        out = torch.empty(self.rank + 1)
        dist.reduce_scatter(out, [distinct(self.rank + r, (r + 1,)) for r in range(self.size)])
        self.same(out, sum(distinct(s + self.rank, (self.rank + 1,)) for s in range(self.size)))

    def test_all_to_all(self):
        ins = [distinct(self.rank * 10 + r, (r + 1, 2)) for r in range(self.size)]
        outs = [torch.empty(self.rank + 1, 2) for _ in range(self.size)]
        dist.all_to_all(outs, ins)
        self.same(outs, [distinct(s * 10 + self.rank, (self.rank + 1, 2)) for s in range(self.size)])
        whole = torch.empty(2 * self.size, 3)
        dist.all_to_all_single(whole, distinct(self.rank, (2 * self.size, 3)))
        self.same(whole, torch.cat([distinct(s, (2 * self.size, 3))[2 * self.rank : 2 * self.rank + 2] for s in range(self.size)]))
        splits = [r + 1 for r in range(self.size)]
        whole = torch.empty((self.rank + 1) * self.size, 2)
        dist.all_to_all_single(whole, torch.cat(ins), [self.rank + 1] * self.size, splits)
        self.same(whole, torch.cat(outs))

    @covers("TS-29", "TS-30")
    def test_coalesced(self):
        xs = [distinct(self.rank, (n,)) for n in (1, 4, 9)]
        dist.all_reduce_coalesced(xs)
        self.same(xs, [sum(self.every((n,))) for n in (1, 4, 9)])
        ins = [distinct(self.rank, (2, 2)), distinct(self.rank + 5, (3,))]
        outs = [[torch.empty(2, 2), torch.empty(3)] for _ in range(self.size)]
        dist.all_gather_coalesced(outs, ins)
        self.same(outs, [[distinct(r, (2, 2)), distinct(r + 5, (3,))] for r in range(self.size)])
        with dist._coalescing_manager():
            for x in xs:
                dist.all_reduce(x)
        self.same(xs, [self.size * sum(self.every((n,))) for n in (1, 4, 9)])
        wholes = [torch.empty(2 * self.size), torch.empty(self.size)]
        with dist._coalescing_manager(async_ops=True) as manager:
            dist.all_gather_into_tensor(wholes[0], distinct(self.rank, (2,)))
            dist.all_gather_into_tensor(wholes[1], distinct(self.rank + 1, (1,)))
        manager.wait()
        self.same(wholes, [torch.cat(self.every((2,))), torch.cat([distinct(r + 1, (1,)) for r in range(self.size)])])
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
            for whole in wholes:
                dist.group.WORLD.allreduce([whole])
        manager.wait()
        self.same(wholes[0], self.size * torch.cat(self.every((2,))))

    def test_messages(self):
        following, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for n in (3, 100_000):  # one that leaves at once, one that waits for its receiver
            out, into = distinct(self.rank, (n,)), torch.empty(n)
            requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, out, following), dist.P2POp(dist.irecv, into, before)])
            for request in requests:
                request.wait()
            self.same(into, distinct(before, (n,)))
        if self.rank == 0:
            for r in range(1, self.size):
                first, second = torch.empty(2), torch.empty(2)
                dist.recv(second, r, tag=2)
                dist.recv(first, r, tag=1)
                self.same([first, second], [distinct(r, (2,)), distinct(r + 40, (2,))])
            seen = set()
            for _ in range(1, self.size):
                x = torch.empty(5)
                source = dist.recv(x)
                self.same(x, distinct(source + 80, (5,)))
                seen.add(source)
            self.assertEqual(seen, set(range(1, self.size)))
        else:
            dist.send(distinct(self.rank, (2,)), 0, tag=1)
            dist.send(distinct(self.rank + 40, (2,)), 0, tag=2)
            dist.send(distinct(self.rank + 80, (5,)), 0)
        dist.barrier()

    def test_works_and_futures(self):
        xs = [distinct(self.rank + i, (1000,)) for i in range(8)]
        works = [dist.all_reduce(x, async_op=True) for x in xs]
        doubled = [work.get_future().then(lambda future: future.value()[0] * 2) for work in works]
        for i, future in enumerate(doubled):
            self.same(future.wait(), 2 * sum(distinct(r + i, (1000,)) for r in range(self.size)))
        for work, x in zip(works, xs):
            self.assertTrue(work.wait())
            self.assertTrue(work.is_completed() and work.is_success())
            self.assertTrue(work.get_future().done())
            self.assertEqual(work.result()[0].data_ptr(), x.data_ptr())
        # One that nobody keeps is carried out all the same, with memory that nobody else keeps.
        for _ in range(50):
            dist.all_reduce(torch.ones(10_000), async_op=True)
        dist.barrier()

    def test_a_callback_may_call_the_group(self):
        x, y = distinct(self.rank, (64,)), torch.ones(3)
        again = []

        def call(future):
            again.append(dist.all_reduce(y, async_op=True))
            return future.value()

        dist.all_reduce(x, async_op=True).get_future().then(call).wait()
        again[0].wait()
        self.same(y, torch.full((3,), float(self.size)))

    def test_threads_share_a_group(self):
        # Messages with tags of their own, while another thread waits in a collective that its peers come to late.
        wrong = []

        def exchange(tag):
            try:
                for i in range(20):
                    x = torch.full((7,), float(self.rank * 1000 + tag * 100 + i))
                    got = torch.empty(7)
                    request = dist.irecv(got, (self.rank - 1) % self.size, tag=tag)
                    dist.send(x, (self.rank + 1) % self.size, tag=tag)
                    request.wait()
                    self.same(got, torch.full((7,), float((self.rank - 1) % self.size * 1000 + tag * 100 + i)))
            except BaseException as error:  # noqa: B036  (told to the test)
                wrong.append(error)

        threads = [threading.Thread(target=exchange, args=(tag,)) for tag in (1, 2, 3)]
        for thread in threads:
            thread.start()
        if self.rank != 0:
            for thread in threads:
                thread.join()
        for _ in range(20):
            x = distinct(self.rank, (50,))
            dist.all_reduce(x)
            self.same(x, sum(self.every((50,))))
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_objects(self):
        mine = {"rank": self.rank, "tensor": distinct(self.rank, (2,))}
        all_of_them = [None] * self.size
        dist.all_gather_object(all_of_them, mine)
        for r, other in enumerate(all_of_them):
            self.assertEqual(other["rank"], r)
            self.same(other["tensor"], distinct(r, (2,)))
        told = [mine, "text"] if self.rank == 0 else [None, None]
        dist.broadcast_object_list(told)
        self.assertEqual((told[0]["rank"], told[1]), (0, "text"))
        mine = [None]
        dist.scatter_object_list(mine, [f"for {r}" for r in range(self.size)] if self.rank == 0 else None)
        self.assertEqual(mine, [f"for {self.rank}"])
        at_root = [None] * self.size if self.rank == 1 else None
        dist.gather_object(self.rank**2, at_root, dst=1)
        if at_root:
            self.assertEqual(at_root, [r**2 for r in range(self.size)])

    def test_sparse(self):
        def mine(r):
            return torch.sparse_coo_tensor([[r, 3 + r % 2]], [1.0 + r, 10.0 * (r + 1)], (8,))

        x = mine(self.rank)
        dist.all_reduce(x)
        self.same(x.to_dense(), sum(mine(r).to_dense() for r in range(self.size)))

    def test_groups(self):
        pair = dist.new_group([self.size - 1, 0])  # in the order of the ranks, whatever is said
        if self.rank in (0, self.size - 1):
            x = distinct(self.rank, (3,))
            dist.all_reduce(x, group=pair)
            self.same(x, distinct(0, (3,)) + distinct(self.size - 1, (3,)))
            dist.destroy_process_group(pair)
        for _ in range(3):
            group = dist.new_group()
            x = torch.ones(1)
            dist.all_reduce(x, group=group)
            self.same(x, torch.full((1,), float(self.size)))
            dist.destroy_process_group(group)
        mine, _ = dist.new_subgroups(1)
        x = distinct(self.rank, (3,))
        dist.all_reduce(x, group=mine)
        self.same(x, distinct(self.rank, (3,)))
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        self.assertTrue(backend.supports_splitting)
        half = dist.group.WORLD.split_group(list(range(self.size - 1)), group_name="all but the last", group_desc="of a split")
        if self.rank < self.size - 1:
            x = distinct(self.rank, (3,))
            half.allreduce([x]).wait()
            self.same(x, sum(distinct(r, (3,)) for r in range(self.size - 1)))

    def test_functional(self):
        group = dist.group.WORLD
        self.same(functional.all_reduce(distinct(self.rank, (4,)), "sum", group) + 0, sum(self.every((4,))))
        self.same(functional.all_gather_tensor(distinct(self.rank, (2, 2)), 0, group) + 0, torch.cat(self.every((2, 2))))
        part = functional.reduce_scatter_tensor(distinct(self.rank, (2 * self.size,)), "sum", 0, group) + 0
        self.same(part, sum(self.every((2 * self.size,)))[2 * self.rank : 2 * self.rank + 2])
        self.same(functional.broadcast(distinct(self.rank, (3,)), 0, group) + 0, distinct(0, (3,)))
        sums = functional.all_reduce_coalesced([distinct(self.rank, (2,)), distinct(self.rank, (3,))], "sum", group)
        self.same([s + 0 for s in sums], [sum(self.every((2,))), sum(self.every((3,)))])
        swapped = functional.all_to_all_single(distinct(self.rank, (self.size,)), None, None, group) + 0
        self.same(swapped, torch.stack([distinct(s, (self.size,))[self.rank] for s in range(self.size)]))

    def test_profiler_names_the_calls(self):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
            dist.all_reduce(torch.ones(4, 4))
            dist.broadcast(torch.ones(2), 0)
        events = {event.name: event for event in profile.events()}
        self.assertEqual(events["unisono:all_reduce"].input_shapes, [[4, 4]])
        self.assertIn("unisono:broadcast", events)

    def test_barriers(self):
        dist.barrier()
        dist.barrier(async_op=True).wait()
        dist.monitored_barrier()
        dist.monitored_barrier(wait_all_ranks=True)


if __name__ == "__main__":
    main()
