"""Every collective of torch.distributed, its results computed here from the values of all ranks. Run as several ranks."""

import functools
import operator

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from covers import covers
from ranks import RankTest, distinct, main

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


class Collectives(RankTest):
    @covers("B-21")
    def test_all_reduce_sums_every_dtype(self):
        for dtype in FLOATS + INTEGERS + [torch.complex64, torch.complex128]:
            x = distinct(self.rank, (3, 5), dtype)
            dist.all_reduce(x)
            self.same(x, sum(self.every((3, 5), dtype)).to(dtype), str(dtype))

    def test_all_reduce_combines_by_every_operation(self):
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
    def test_a_premultiplied_sum_multiplies_by_the_factor(self):
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

    def test_strided_and_empty_tensors_are_reduced(self):
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

    def test_a_call_raises_the_version_counter(self):
        x = distinct(self.rank, (3,)).requires_grad_()
        y = x * x
        before = y._version
        dist.all_reduce(y)
        self.assertGreater(y._version, before)

    def test_rooted_calls_work_with_every_root(self):
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

    @covers("TS-25", "TS-28")
    def test_all_gather_gives_every_rank_all_tensors(self):
        parts = [torch.empty(3, 2) for _ in range(self.size)]
        dist.all_gather(parts, distinct(self.rank, (3, 2)))
        self.same(parts, self.every((3, 2)))
        whole = torch.empty(self.size * 3, 2)
        dist.all_gather_into_tensor(whole, distinct(self.rank, (3, 2)))
        self.same(whole, torch.cat(self.every((3, 2))))
        stacked = torch.empty(self.size, 3, 2)
        dist.all_gather_into_tensor(stacked, distinct(self.rank, (3, 2)))
        self.same(stacked, torch.stack(self.every((3, 2))))
        dist.all_gather(list(whole.zero_().chunk(self.size)), distinct(self.rank, (3, 2)))
        self.same(whole, torch.cat(self.every((3, 2))))
        uneven = [torch.empty(r + 1, 2) for r in range(self.size)]
        dist.all_gather(uneven, distinct(self.rank, (self.rank + 1, 2)))
        self.same(uneven, [distinct(r, (r + 1, 2)) for r in range(self.size)])
        small = [torch.empty(4, dtype=torch.float8_e4m3fn) for _ in range(self.size)]
        dist.all_gather(small, distinct(self.rank, (4,)).to(torch.float8_e4m3fn))
        self.same([t.float() for t in small], [distinct(r, (4,)).to(torch.float8_e4m3fn).float() for r in range(self.size)])

    def test_lists_on_a_device_are_gathered(self):
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

    @covers("TS-23", "TS-24")
    def test_reduce_scatter_gives_each_rank_its_part(self):
        out = torch.empty(2, 2)
        dist.reduce_scatter(out, [distinct(self.rank + 3 * r, (2, 2)) for r in range(self.size)])
        self.same(out, sum(distinct(s + 3 * self.rank, (2, 2)) for s in range(self.size)))
        dist.reduce_scatter_tensor(out, distinct(self.rank, (2 * self.size, 2)), dist.ReduceOp.AVG)
        self.close(out, (sum(self.every((2 * self.size, 2))) / self.size)[2 * self.rank : 2 * self.rank + 2])
        dist.reduce_scatter_tensor(out, torch.stack([distinct(self.rank + 3 * r, (2, 2)) for r in range(self.size)]))
        self.same(out, sum(distinct(s + 3 * self.rank, (2, 2)) for s in range(self.size)))
        out = torch.empty(self.rank + 1)
        dist.reduce_scatter(out, [distinct(self.rank + r, (r + 1,)) for r in range(self.size)])
        self.same(out, sum(distinct(s + self.rank, (self.rank + 1,)) for s in range(self.size)))

    @covers("TS-26", "TS-27")
    def test_all_to_all_exchanges_tensors_of_any_length(self):
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
    def test_coalesced_calls_give_what_single_ones_do(self):
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

    def test_sparse_tensors_are_summed(self):
        def mine(r):
            return torch.sparse_coo_tensor([[r, 3 + r % 2]], [1.0 + r, 10.0 * (r + 1)], (8,))

        x = mine(self.rank)
        dist.all_reduce(x)
        self.same(x.to_dense(), sum(mine(r).to_dense() for r in range(self.size)))

    def test_functional_collectives_give_new_tensors(self):
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


if __name__ == "__main__":
    main()
