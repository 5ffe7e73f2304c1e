"""Every collective on arrays and on numbers: what comes out, where, and in which form."""

import unittest

import numpy as np

import unisono
from ranks import DTYPES, RankTest, main

OPERATIONS = {
    "sum": lambda all: sum(all[1:], all[0]),
    "product": lambda all: np.prod(all, axis=0),
    "min": lambda all: np.min(all, axis=0),
    "max": lambda all: np.max(all, axis=0),
    "band": lambda all: np.bitwise_and.reduce(all),
    "bor": lambda all: np.bitwise_or.reduce(all),
    "bxor": lambda all: np.bitwise_xor.reduce(all),
    "land": lambda all: np.all(all, axis=0),
    "lor": lambda all: np.any(all, axis=0),
}


class Reductions(RankTest):
    def test_all_reduce_sums_in_place_in_every_shape(self):
        for shape in [(0,), (1,), (7,), (3, 5), (2, 3, 4)]:
            x = self.mine(shape)
            self.assertIs(unisono.all_reduce(x), x)
            self.same(x, sum(self.all(shape)), shape)

    def test_all_reduce_sums_every_dtype(self):
        for dtype in DTYPES:
            x = self.mine((11,), dtype)
            unisono.all_reduce(x)
            self.assertEqual(x.dtype, dtype)
            expected = np.any(self.all((11,), dtype), axis=0) if dtype == "bool" else sum(self.all((11,), dtype))
            self.same(x, expected, dtype)

    def test_all_reduce_combines_by_every_operation_and_spelling(self):
        for name, combined in OPERATIONS.items():
            for spelling in (name, name.upper(), getattr(unisono.ReduceOp, name)):
                x = self.mine((9,), "int32")
                unisono.all_reduce(x, spelling)
                self.same(x, combined(self.all((9,), "int32")), name)
        x = self.mine((9,), "float64")
        unisono.all_reduce(x, "avg")
        self.same(x, sum(self.all((9,))) / self.size)

    def test_premul_sum_multiplies_by_each_ranks_factor(self):
        x = self.mine((5,))
        unisono.all_reduce(x, unisono.premul_sum(self.rank + 0.5))
        self.same(x, sum(x * (r + 0.5) for r, x in enumerate(self.all((5,)))))

    def test_all_reduce_combines_by_a_function(self):
        x = self.mine((50,), "int64")
        unisono.all_reduce(x, np.maximum)
        self.same(x, np.max(self.all((50,), "int64"), axis=0))
        y = self.mine((50,), "float32") % 3 + 1
        expected = np.prod([a % 3 + 1 for a in self.all((50,), "float32")], axis=0)
        unisono.all_reduce(y, lambda a, b: a * b)
        self.same(y, expected)
        self.assertEqual(unisono.all_reduce(self.rank, max), self.size - 1)

    def test_all_reduce_with_out_leaves_its_input_as_it_is(self):
        x = self.mine((6,))
        x.flags.writeable = False
        out = np.empty(6)
        self.assertIs(unisono.all_reduce(x, out=out), out)
        self.same(x, self.mine((6,)))
        self.same(out, sum(self.all((6,))))

    def test_all_reduce_of_a_number_returns_its_type(self):
        n, total = self.size, self.size * (self.size + 1) // 2
        for x, expected in [(self.rank + 1, total), (self.rank + 0.5, total - n / 2), (complex(self.rank + 1, 1), complex(total, n)), (True, True)]:
            result = unisono.all_reduce(x)
            self.assertIs(type(result), type(x))
            self.assertEqual(result, expected)
        for dtype in DTYPES[1:]:
            x = np.dtype(dtype).type(self.rank + 1)
            result = unisono.all_reduce(x)
            self.assertIs(type(result), type(x))
            self.assertEqual(result, total)
        self.refused(unisono.InvalidArgument, "int64", unisono.all_reduce, 2**64)

    def test_reduce_gives_the_sum_to_the_root_alone(self):
        for dst in range(self.size):
            x = self.mine((4,))
            result = unisono.reduce(x, dst)
            if self.rank == dst:
                self.assertIs(result, x)
                self.same(x, sum(self.all((4,))))
            else:
                self.assertIsNone(result)
                self.same(x, self.mine((4,)))
            number = unisono.reduce(self.rank + 1, dst, "max")
            self.assertEqual(number, self.size if self.rank == dst else None)

    def test_broadcast_gives_everybody_what_the_root_has(self):
        for src in range(self.size):
            x = self.mine((3, 2), "float32")
            self.assertIs(unisono.broadcast(x, src), x)
            self.same(x, self.all((3, 2), "float32")[src])
            self.assertEqual(unisono.broadcast(self.rank * 10 + 1, src), src * 10 + 1)
            self.assertEqual(unisono.broadcast(f"rank {self.rank}", unisono.GlobalRank(src)), f"rank {src}")

    def test_scan_and_exscan_combine_the_ranks_up_to_this_one(self):
        all = self.all((5,))
        self.same(unisono.scan(self.mine((5,))), sum(all[: self.rank + 1]))
        self.same(unisono.exscan(self.mine((5,))), sum(all[: self.rank]) if self.rank else all[0])
        self.assertEqual(unisono.scan(self.rank + 1), (self.rank + 1) * (self.rank + 2) // 2)
        self.assertEqual(unisono.exscan(self.rank + 1), self.rank * (self.rank + 1) // 2 if self.rank else 1)

    def test_mean_is_exact_and_rounded_once(self):
        self.assertEqual(unisono.mean(2**60 + self.rank), float(sum(2**60 + r for r in range(self.size)) / self.size))
        self.assertEqual(unisono.mean(self.rank + 0.5), self.size / 2)
        self.refused(unisono.InvalidArgument, "complex", unisono.mean, 1j)

    def test_asynchronous_reductions_give_what_the_blocking_ones_do(self):
        x, y, z = self.mine((1000,)), self.mine((3,)), np.empty(3)
        works = [unisono.all_reduce_async(x), unisono.all_reduce_async(y, "max", out=z), unisono.barrier_async()]
        unisono.wait_all(works)
        self.assertTrue(all(work.is_completed() and work.exception() is None for work in works))
        self.same(x, sum(self.all((1000,))))
        self.same(z, np.max(self.all((3,)), axis=0))
        work = unisono.reduce_async(self.mine((3,)), 0)
        result = work.result()
        self.same(result, sum(self.all((3,)))) if self.rank == 0 else self.assertIsNone(result)
        for start, expected in [
            (lambda: unisono.broadcast_async(self.mine((3,)), 0), self.all((3,))[0]),
            (lambda: unisono.scan_async(self.mine((3,))), sum(self.all((3,))[: self.rank + 1])),
            (lambda: unisono.exscan_async(self.mine((3,))), sum(self.all((3,))[: self.rank]) if self.rank else self.all((3,))[0]),
        ]:
            self.same(start().result(), expected)

    def test_a_work_that_is_dropped_completes(self):
        for _ in range(50):
            unisono.all_reduce_async(np.ones(10000))  # nobody keeps the array
        self.assertEqual(unisono.all_reduce(1), self.size)

    def test_wait_any_returns_the_index_of_a_completed_work(self):
        works = [unisono.all_reduce_async(np.ones(5)) for _ in range(3)]
        index = unisono.wait_any(works)
        self.assertTrue(works[index].is_completed())
        unisono.wait_all(works)
        self.refused(unisono.InvalidArgument, "nothing to wait for", unisono.wait_any, [])


class Deterministic(RankTest):
    def calls(self, length=3):
        """Every reduction that takes `deterministic`, as a function of its keywords."""
        n = self.size
        x, out = self.rounded(length), np.zeros(length, "float32")
        blocks, counts = np.tile(x, n), [length] * n
        direct = [(unisono.all_reduce, (x.copy(),)), (unisono.reduce, (x.copy(), 0)), (unisono.scan, (x.copy(),)), (unisono.exscan, (x.copy(),)),
                  (unisono.reduce_scatter, (blocks,)), (unisono.reduce_scatter_v, (blocks, counts, out.copy()))]
        asynchronous = [(unisono.all_reduce_async, (x.copy(),)), (unisono.reduce_async, (x.copy(), 0)), (unisono.scan_async, (x.copy(),)),
                        (unisono.exscan_async, (x.copy(),)), (unisono.reduce_scatter_async, (blocks, out.copy())),
                        (unisono.reduce_scatter_v_async, (blocks, counts, out.copy()))]
        for function, arguments in direct:
            yield function.__name__, lambda f=function, a=arguments, **keywords: f(*a, **keywords)
        for function, arguments in asynchronous:
            yield function.__name__, lambda f=function, a=arguments, **keywords: f(*a, **keywords).wait()

    def rounded(self, length, rank=None):
        """Numbers whose sum depends on the order of the additions."""
        rank = self.rank if rank is None else rank
        return (1 / (3 + 7 * rank + np.arange(length) % 1013) * (1 if rank % 2 == 0 else 1000)).astype("float32")

    def test_sums_have_the_bits_of_the_order_of_the_ranks(self):
        for length in (1, 20011):
            expected = sum((self.rounded(length, r) for r in range(1, self.size)), self.rounded(length, 0))
            self.same(unisono.all_reduce(self.rounded(length), deterministic=True), expected)

    def test_every_reduction_passes_it_on(self):
        if self.size == 1:
            self.skipTest("takes two ranks")
        for name, call in self.calls():
            call(deterministic=True)
            with self.assertRaises(unisono.Mismatch, msg=name):
                call(deterministic=self.rank == 0)


class Blocks(RankTest):
    def test_all_gather_gives_every_rank_all_blocks(self):
        x = self.mine((3, 2), "int16")
        result = unisono.all_gather(x)
        self.assertEqual(result.dtype, np.int16)
        self.same(result, np.stack(self.all((3, 2), "int16")))
        out = np.empty((self.size * 3, 2), "int16")
        self.assertIs(unisono.all_gather(x, out), out)
        self.same(out, np.concatenate(self.all((3, 2), "int16")))
        parts = [np.empty((3, 2), "int16") for _ in range(self.size)]
        self.assertIs(unisono.all_gather(x, parts), parts)
        self.same(parts, self.all((3, 2), "int16"))
        self.same(unisono.all_gather(np.float32(2).reshape(())), np.full(self.size, 2, "float32"))
        self.same(unisono.all_gather_async(x).result(), np.stack(self.all((3, 2), "int16")))

    def test_all_gather_of_numbers_and_objects_returns_a_list(self):
        self.assertEqual(unisono.all_gather(self.rank * 2), [r * 2 for r in range(self.size)])
        self.assertEqual(unisono.all_gather(self.rank / 2), [r / 2 for r in range(self.size)])
        self.assertEqual(unisono.all_gather(("a", self.rank)), [("a", r) for r in range(self.size)])
        self.assertEqual(unisono.all_gather(b"ab" * self.rank), [b"ab" * r for r in range(self.size)])

    def test_gather_gives_the_root_all_blocks(self):
        for dst in range(self.size):
            x = self.mine((4,))
            result = unisono.gather(x, dst=dst)
            numbers = unisono.gather(self.rank, dst=dst)
            texts = unisono.gather(str(self.rank), dst=dst)
            if self.rank == dst:
                self.same(result, np.stack(self.all((4,))))
                self.assertEqual(numbers, list(range(self.size)))
                self.assertEqual(texts, [str(r) for r in range(self.size)])
            else:
                self.assertEqual((result, numbers, texts), (None, None, None))
            out = np.zeros(4 * self.size) if self.rank == dst else None
            unisono.gather_async(x, out, dst).wait()
            if self.rank == dst:
                self.same(out, np.concatenate(self.all((4,))))

    def test_scatter_gives_each_rank_its_block_of_the_root(self):
        for src in range(self.size):
            table = np.arange(self.size * 3.0).reshape(self.size, 3) + src
            out = np.empty(3)
            self.assertIs(unisono.scatter(table if self.rank == src else None, out, src), out)
            self.same(out, table[self.rank])
            parts = [row.copy() for row in table + 100] if self.rank == src else []
            unisono.scatter_async(parts, out, src).wait()
            self.same(out, table[self.rank] + 100)

    def test_reduce_scatter_gives_each_rank_its_block_of_the_combination(self):
        x = self.mine((self.size * 2, 3), "float32")
        total = sum(self.all((self.size * 2, 3), "float32"))
        mine = total[self.rank * 2 : self.rank * 2 + 2]
        self.same(unisono.reduce_scatter(x), mine)
        out = np.empty((2, 3), "float32")
        self.assertIs(unisono.reduce_scatter(x, out, "max"), out)
        self.same(out, np.max(self.all((self.size * 2, 3), "float32"), axis=0)[self.rank * 2 : self.rank * 2 + 2])
        self.same(unisono.reduce_scatter_async(x).result(), mine)
        if self.size > 1:
            self.refused(unisono.InvalidArgument, "cannot share evenly", unisono.reduce_scatter, np.ones(self.size + 1))

    def test_all_to_all_exchanges_the_blocks(self):
        x = np.arange(self.size * 2) + 100 * self.rank
        expected = np.concatenate([np.arange(2) + 2 * self.rank + 100 * r for r in range(self.size)])
        self.same(unisono.all_to_all(x), expected)
        out = np.empty_like(x)
        self.assertIs(unisono.all_to_all(x, out), out)
        self.same(out, expected)
        self.same(unisono.all_to_all_async(x).result(), expected)


class Counted(RankTest):
    def setUp(self):
        super().setUp()
        self.counts = [2 * r + 1 for r in range(self.size)]
        self.whole = np.concatenate([np.arange(n) + 10 * r for r, n in enumerate(self.counts)])
        self.part = np.arange(self.counts[self.rank]) + 10 * self.rank

    def test_all_gather_v_puts_blocks_of_all_lengths_together(self):
        out = np.empty_like(self.whole)
        self.assertIs(unisono.all_gather_v(self.part, out, self.counts), out)
        self.same(out, self.whole)
        result, counts = unisono.all_gather_v(self.part)
        self.same(result, self.whole)
        self.assertEqual(counts, self.counts)
        out = np.empty_like(self.whole)
        self.same(unisono.all_gather_v_async(self.part, out, np.array(self.counts)).result(), self.whole)
        self.refused(unisono.InvalidArgument, "given together", unisono.all_gather_v, self.part, out)

    def test_gather_v_gives_the_root_blocks_of_all_lengths(self):
        for dst in range(self.size):
            result, counts = unisono.gather_v(self.part, dst=dst)
            known = unisono.gather_v(self.part, counts=self.counts, dst=dst)
            self.assertEqual(counts, self.counts)
            for found in (result, known):
                self.same(found, self.whole) if self.rank == dst else self.assertIsNone(found)
            out = np.empty_like(self.whole) if self.rank == dst else None
            unisono.gather_v_async(self.part, out, self.counts, dst).wait()
            if self.rank == dst:
                self.same(out, self.whole)

    def test_scatter_v_and_reduce_scatter_v_give_each_rank_its_count(self):
        out = np.empty_like(self.part)
        unisono.scatter_v(self.whole if self.rank == 0 else None, self.counts, out)
        self.same(out, self.part)
        out[:] = 0
        unisono.scatter_v_async(self.whole if self.rank == 0 else None, self.counts, out).wait()
        self.same(out, self.part)
        unisono.reduce_scatter_v(self.whole, self.counts, out)
        self.same(out, self.part * self.size)
        self.same(unisono.reduce_scatter_v_async(self.whole, self.counts, out, "max").result(), self.part)

    def test_all_to_all_v_exchanges_as_many_elements_as_the_counts_say(self):
        send_counts = [self.rank + r for r in range(self.size)]
        x = np.arange(sum(send_counts), dtype="int32") + 1000 * self.rank
        offsets = [sum(s + r for r in range(self.rank)) for s in range(self.size)]
        expected = np.concatenate([np.arange(s + self.rank) + offsets[s] + 1000 * s for s in range(self.size)])
        result, counts = unisono.all_to_all_v(x, send_counts)
        self.same(result, expected)
        self.assertEqual(counts, send_counts)
        out = np.empty_like(result)
        self.assertIs(unisono.all_to_all_v(x, send_counts, out, counts), out)
        self.same(out, expected)
        self.same(unisono.all_to_all_v_async(x, send_counts, np.empty_like(result), counts).result(), expected)

    def test_lists_of_arrays_keep_their_lengths_and_shapes(self):
        pieces = unisono.all_gather_list(np.full((self.rank + 1, 2), self.rank))
        self.assertEqual([piece.tolist() for piece in pieces], [[[r, r]] * (r + 1) for r in range(self.size)])
        pieces = unisono.gather_list(self.part)
        if self.rank == 0:
            self.assertEqual([len(piece) for piece in pieces], self.counts)
        else:
            self.assertIsNone(pieces)
        self.same(unisono.scatter_list([np.full(r, r) for r in range(self.size)] if self.rank == 0 else None), np.full(self.rank, self.rank))


class Several(RankTest):
    def test_all_forms(self):
        def pair(shift=0):
            return [np.full(4, 10.0 * self.rank + shift + j) for j in range(2)]

        everyone = [10.0 * r + j for r in range(self.size) for j in range(2)]
        for reduce in (unisono.all_reduce_multigpu, lambda *a: unisono.all_reduce_multigpu_async(*a).result()):
            for x in reduce(pair()):
                self.same(x, np.full(4, sum(everyone)))
        for x in unisono.broadcast_multigpu(pair(), 0) + unisono.broadcast_multigpu_async(pair(), 0).result():
            self.same(x, np.zeros(4))
        for reduce in (unisono.reduce_multigpu, lambda *a: unisono.reduce_multigpu_async(*a).result()):
            x = reduce(pair(), 0)
            self.same(x[0], np.full(4, sum(everyone) if self.rank == 0 else 10.0 * self.rank))
        for gather in (unisono.all_gather_multigpu, lambda *a: unisono.all_gather_multigpu_async(*a).result()):
            out = gather([np.empty(8 * self.size) for _ in range(2)], pair())
            self.same(out[1].reshape(-1, 4)[:, 0], everyone)
        for scatter in (unisono.reduce_scatter_multigpu, lambda *a: unisono.reduce_scatter_multigpu_async(*a).result()):
            out = scatter([np.empty(3) for _ in range(2)], [np.full(6 * self.size, 1.0) for _ in range(2)])
            self.same(out[0], np.full(3, 2.0 * self.size))


if __name__ == "__main__":
    main()
