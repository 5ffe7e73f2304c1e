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
        prime = 2147483629
        for _ in range(200):  # a quarter of an hour, if every number below were tried
            self.assertEqual(choose(prime, (0, 0)), [prime, 1])
        for wrong, words in (((4, 0), "not a grid of 4 x 0"), ((2, 2), "not a grid of 2 x 2"), ((), "at least one axis"), ((1 << 30, 1 << 30, 6), "not a grid of")):
            self.refused(unisono.InvalidArgument, words, choose, 6, wrong)

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

    def test_wrong_extents_axes_and_ranks_are_refused(self):
        grid = unisono.Grid((self.size, 1))
        for call, wrong, words in (
            (unisono.Grid, (self.size + 1,), f"{self.size} ranks are not a grid of {self.size + 1}"),
            (unisono.Grid, 3, "extents are ints"),
            (unisono.Grid, (1.5, 0), "extents are ints"),
            (unisono.Grid, (1 << 40,), "extents have 32 bits"),
            (grid.neighbour, 2, "no axis 2 among 2"),
            (grid.is_periodic, -1, "no axis -1 among 2"),
            (grid.coordinates_of, self.size, f"rank {self.size} is not in the grid of {self.size}"),
            (grid.coordinates_of, "0", "a str stands where a rank is meant"),
            (grid.rank_at, (0,), "1 coordinates for 2 axes"),
            (grid.along, (2,), "no axis 2 among 2"),
            (grid.along, 0, "axes are ints"),
        ):
            error = self.refused(unisono.InvalidArgument, words, call, wrong)
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

    def test_an_empty_array_has_an_empty_list_of_places(self):
        pairs = unisono.WithPlace(np.empty(0), [])
        self.assertIs(unisono.all_reduce(pairs, "min"), pairs)
        self.assertEqual((pairs.value.shape, pairs.place.dtype), ((0,), np.dtype("int64")))

    def test_a_mask_is_refused(self):
        masked, plain = np.ma.array([1.0, 2.0], mask=[True, False]), np.ones(2)
        for call, *wrong in (
            (unisono.WithPlace, masked, 0),
            (unisono.WithPlace, plain, np.ma.array([1, 2], mask=[True, False])),
            (unisono.all_reduce, masked),
            (unisono.broadcast, masked),
            (unisono.all_reduce_async, masked),
            (unisono.all_gather, masked),
        ):
            self.refused(unisono.InvalidArgument, "mask", call, *wrong)
        self.assertEqual(unisono.all_reduce(1), self.size)

    def test_pairs_travel_as_objects(self):
        pairs = unisono.WithPlace(np.arange(3.0), [4, 5, 6])
        self.assertEqual(pickle.loads(pickle.dumps(pairs)), pairs)
        self.assertEqual(len({unisono.WithPlace(1, 2), unisono.WithPlace(1, 2), unisono.WithPlace(1, 3)}), 2)
        self.assertRaises(TypeError, hash, pairs)
        self.assertEqual(unisono.all_gather(unisono.WithPlace(1, self.rank)), [unisono.WithPlace(1, r) for r in range(self.size)])

    def test_pairs_that_have_no_order_or_shape_are_refused(self):
        pair, pairs = unisono.WithPlace(1.0, 0), unisono.WithPlace(np.ones(3), 0)
        for words, call, *wrong in (
            ("complex numbers have no order", unisono.WithPlace, 1j, 0),
            ("a place is an int", unisono.WithPlace, 1.0, 0.5),
            ("a place is an int", unisono.WithPlace, 1.0, True),
            ("a place has 64 bits", unisono.WithPlace, 1.0, 1 << 63),
            ("no operation is on elements of the format", unisono.WithPlace, "text", 0),
            ("values are a number, or an array", unisono.WithPlace, [[1], [2, 3]], 0),
            ("different shapes", unisono.WithPlace, np.ones(3), [1, 2]),
            ("places are ints of at most 64 bits", unisono.WithPlace, np.ones(2), np.ones(2)),
            ("places are ints of at most 64 bits", unisono.WithPlace, np.ones(2), np.ones(2, "uint64")),
            ("sum is not defined on values with places", unisono.all_reduce, pair),
            ("sum is not defined on values with places", unisono.all_reduce, pairs, "sum"),
            ("a ufunc stands where the operation is meant", unisono.all_reduce, pairs, np.maximum),
            ("values with their places are taken by all_reduce, reduce and scan", unisono.exscan, pair, "min"),
            ("only all_reduce_async is asynchronous, of arrays", unisono.all_reduce_async, pair, "min"),
            ("of values with their places only all_reduce_async", unisono.reduce_async, pairs, 0, "min"),
            ("of values with their places only all_reduce_async", unisono.broadcast_async, pairs),
            ("this is a WithPlace", unisono.send, pairs, 0),
        ):
            self.refused(unisono.InvalidArgument, words, call, *wrong)
        self.assertEqual(unisono.all_reduce(1), self.size)

    def test_values_of_another_dtype_are_a_mismatch(self):
        if self.size == 1:
            self.skipTest("one rank has nobody to differ from")
        mine = unisono.WithPlace(1.0 if self.rank == 0 else 1, 0)
        error = self.refused(unisono.Mismatch, "the smallest with its place, float64", unisono.all_reduce, mine, "min")
        self.assertIn("the smallest with its place, int64", str(error))
        self.assertEqual(unisono.all_reduce(1), self.size)


if __name__ == "__main__":
    main()
