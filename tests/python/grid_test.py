"""Grids of ranks, and values with the places where they are."""

import math
import pickle

import numpy as np

import unisono
from covers import covers
from ranks import DTYPES, RankTest, main

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class Grids(RankTest):
    def test_extents_are_chosen(self):
        choose = unisono.Grid.choose_extents
        self.assertEqual((choose(12, (0, 0)), choose(12, (0, 3, 0)), choose(7, [0, 0])), ([4, 3], [2, 3, 2], [7, 1]))
        for wrong in ((4, 0), (2, 2), (), (1 << 30, 1 << 30, 6)):
            self.refused(unisono.InvalidArgument, "", choose, 6, wrong)

    def test_ranks_lie_row_by_row(self):
        grid = unisono.Grid((0, 0))
        rows, columns = grid.extents()
        self.assertEqual((rows * columns, grid.extents()), (self.size, unisono.Grid.choose_extents(self.size, (0, 0))))
        self.assertEqual(grid.coordinates(), [self.rank // columns, self.rank % columns])
        for r in range(self.size):
            self.assertEqual(grid.coordinates_of(r), [r // columns, r % columns])
            self.assertEqual(grid.rank_at(grid.coordinates_of(unisono.GlobalRank(r))), r)
        self.assertIn(f"{rows} x {columns} of world", repr(grid))

    def test_neighbours_end_at_a_border_and_wrap_around_a_ring(self):
        line, ring = unisono.Grid((self.size,)), unisono.Grid((self.size,), periodic=(True,))
        self.assertEqual((line.is_periodic(0), ring.is_periodic(0)), (False, True))
        self.assertEqual(line.neighbour(0), self.rank + 1 if self.rank + 1 < self.size else None)
        self.assertEqual(line.neighbour(0, -1), self.rank - 1 if self.rank > 0 else None)
        self.assertEqual((ring.neighbour(0), ring.neighbour(0, -1)), ((self.rank + 1) % self.size, (self.rank - 1) % self.size))
        self.assertEqual((ring.rank_at([-1]), line.rank_at([-1])), (self.size - 1, None))

    @covers("TS-47")
    def test_a_part_of_a_grid_is_a_group(self):
        turned = unisono.new_group(range(self.size - 1, -1, -1))
        grid = unisono.Grid((self.size, 1), periodic=(True, False), group=turned)
        self.assertEqual(grid.group(), turned)
        column, cell = grid.along((0,)), grid.along([1])
        self.assertEqual((column.extents(), cell.extents(), cell.group().size()), ([self.size], [1], 1))
        self.assertTrue(column.is_periodic(0))
        self.assertEqual(unisono.all_gather(self.rank, group=column.group()), list(range(self.size - 1, -1, -1)))

    def test_refused(self):
        grid = unisono.Grid((self.size, 1))
        for call, *wrong in (
            (unisono.Grid, (self.size + 1,)),
            (unisono.Grid, 3),
            (unisono.Grid, (1.5, 0)),
            (unisono.Grid, (1 << 40,)),
            (grid.neighbour, 2),
            (grid.is_periodic, -1),
            (grid.coordinates_of, self.size),
            (grid.coordinates_of, "0"),
            (grid.rank_at, (0,)),
            (grid.along, (2,)),
            (grid.along, 0),
        ):
            error = self.refused(unisono.InvalidArgument, "", call, *wrong)
            self.assertTrue(error.where.file.endswith("ranks.py"), error)
        self.refused(unisono.InvalidArgument, "periodic", unisono.Grid, (0, 0), periodic=(True,))
        self.refused(unisono.InvalidArgument, "group", unisono.Grid, (0, 0), group=3)
        self.assertEqual(unisono.all_reduce(1, group=grid.group()), self.size)


class Places(RankTest):
    def test_a_value_is_returned_with_its_place(self):
        pair = unisono.all_reduce(unisono.WithPlace((self.rank - 1) ** 2 + 0.5, 10 * self.rank), "min")
        value, place = pair
        self.assertEqual((value, place, type(value)), (0.5, 10, float) if self.size > 1 else (1.5, 0, float))
        self.assertEqual(pair, unisono.WithPlace(value, place))
        self.assertNotEqual(pair, unisono.WithPlace(value, place + 1))
        self.assertEqual(unisono.all_reduce(unisono.WithPlace(self.rank, self.rank), unisono.ReduceOp.max), unisono.WithPlace(self.size - 1, self.size - 1))
        last = unisono.reduce(unisono.WithPlace(np.uint8(200 - self.rank), self.rank), self.size - 1, "min")
        self.assertEqual(last, unisono.WithPlace(np.uint8(201 - self.size), self.size - 1) if self.rank == self.size - 1 else None)
        self.assertEqual(unisono.scan(unisono.WithPlace(self.rank, self.rank), "max"), unisono.WithPlace(self.rank, self.rank))

    def test_the_lowest_place_of_equal_values_wins_and_a_nan_before_numbers(self):
        self.assertEqual(unisono.all_reduce(unisono.WithPlace(True, self.size - self.rank), "max").place, 1)
        for op in ("min", "max"):
            value, place = unisono.all_reduce(unisono.WithPlace(math.nan if self.rank == self.size - 1 else 1.0, self.rank), op)
            self.assertTrue(math.isnan(value))
            self.assertEqual(place, self.size - 1)

    def test_arrays_of_every_dtype_are_worked_on_in_place(self):
        bfloat16 = [np.dtype(ml_dtypes.bfloat16)] if ml_dtypes else []
        for dtype in [*DTYPES, *bfloat16]:
            if np.dtype(dtype).kind == "c":
                self.refused(unisono.InvalidArgument, "complex", unisono.WithPlace, np.ones(2, dtype), 0)
                continue
            everyone = np.stack(self.all((2, 5), str(dtype) if dtype in DTYPES else "float32")).astype(dtype)
            pairs = unisono.WithPlace(everyone[self.rank], self.rank)
            self.assertIs(unisono.all_reduce(pairs, "max"), pairs)
            self.same(pairs.value, everyone.max(0), dtype)
            self.same(pairs.place, everyone.argmax(0), dtype)
            self.assertEqual((pairs.value.dtype, pairs.value.shape, pairs.place.dtype), (np.dtype(dtype), (2, 5), np.dtype("int64")))

    def test_reduce_scan_and_an_asynchronous_call_take_arrays(self):
        everyone = np.stack(self.all((100,)))
        places = np.arange(100) + 1000 * self.rank
        begun = unisono.WithPlace(everyone[self.rank], places.astype("int32"))
        work = unisono.all_reduce_async(begun, "min")
        self.assertIs(work.result(), begun)
        self.same(begun.place, np.arange(100) + 1000 * everyone.argmin(0))
        rooted = unisono.WithPlace(everyone[self.rank], places)
        is_root = self.rank == self.size - 1
        self.assertIs(unisono.reduce(rooted, self.size - 1, "min"), rooted if is_root else None)
        self.same(rooted.value, everyone.min(0) if is_root else everyone[self.rank])
        prefix = unisono.WithPlace(everyone[self.rank], places)
        unisono.scan(prefix, "min")
        self.same(prefix.value, everyone[: self.rank + 1].min(0))

    def test_pairs_travel_as_objects(self):
        pairs = unisono.WithPlace(np.arange(3.0), [4, 5, 6])
        self.assertEqual(pickle.loads(pickle.dumps(pairs)), pairs)
        self.assertEqual(len({unisono.WithPlace(1, 2), unisono.WithPlace(1, 2), unisono.WithPlace(1, 3)}), 2)
        self.assertRaises(TypeError, hash, pairs)
        self.assertEqual(unisono.all_gather(unisono.WithPlace(1, self.rank)), [unisono.WithPlace(1, r) for r in range(self.size)])

    def test_refused(self):
        pair, pairs = unisono.WithPlace(1.0, 0), unisono.WithPlace(np.ones(3), 0)
        for call, *wrong in (
            (unisono.WithPlace, 1j, 0),
            (unisono.WithPlace, 1.0, 0.5),
            (unisono.WithPlace, 1.0, True),
            (unisono.WithPlace, 1.0, 1 << 63),
            (unisono.WithPlace, "text", 0),
            (unisono.WithPlace, [[1], [2, 3]], 0),
            (unisono.WithPlace, np.ones(3), [1, 2]),
            (unisono.WithPlace, np.ones(2), np.ones(2)),
            (unisono.WithPlace, np.ones(2), np.ones(2, "uint64")),
            (unisono.all_reduce, pair),
            (unisono.all_reduce, pairs, "sum"),
            (unisono.all_reduce, pairs, np.maximum),
            (unisono.exscan, pair, "min"),
            (unisono.all_reduce_async, pair, "min"),
            (unisono.reduce_async, pairs, 0, "min"),
            (unisono.broadcast_async, pairs),
            (unisono.send, pairs, 0),
        ):
            self.refused(unisono.InvalidArgument, "", call, *wrong)
        self.assertEqual(unisono.all_reduce(1), self.size)

    def test_values_of_another_dtype_are_a_mismatch(self):
        if self.size == 1:
            self.skipTest("one rank has nobody to differ from")
        self.refused(unisono.Mismatch, "", unisono.all_reduce, unisono.WithPlace(1.0 if self.rank == 0 else 1, 0), "min")
        self.assertEqual(unisono.all_reduce(1), self.size)


if __name__ == "__main__":
    main()
