"""Objects: whatever pickle takes, small and large, with and without arrays in it."""

import pathlib
import unittest

import numpy as np

import unisono
from ranks import RankTest, main


class Unpicklable:
    def __reduce__(self):
        raise TypeError("this one stays here")


def rich(rank):
    return {
        "rank": rank,
        "text": "é" * (rank * 40_000),
        "small": np.arange(rank + 3),
        "large": np.arange(20_000 + rank) * (rank + 1.5),
        "fortran": np.asfortranarray(np.arange(6000.0).reshape(60, 100) + rank),
        "strided": np.arange(9000)[::3],
        "bytes": bytes([rank]) * 100_000,
        "nothing": None,
    }


class Objects(RankTest):
    def equal(self, x, y):
        self.assertEqual(x.keys(), y.keys())
        for key in x:
            if isinstance(x[key], np.ndarray):
                self.same(x[key], y[key])
                self.assertTrue(x[key].flags.aligned)
            else:
                self.assertEqual(x[key], y[key])

    def test_all_gather_object_gives_everybody_copies_of_all_objects(self):
        mine = rich(self.rank)
        all = unisono.all_gather_object(mine)
        for r, x in enumerate(all):
            self.equal(x, rich(r))
        all[self.rank]["large"][0] = -1  # a copy, and one's own
        self.assertEqual(mine["large"][0], 0)
        self.assertEqual(unisono.all_gather_object(None), [None] * self.size)
        self.assertEqual(unisono.all_gather_object(2**100 + self.rank), [2**100 + r for r in range(self.size)])

    def test_an_array_that_is_kept_keeps_nothing_else(self):
        mine = {"large": np.zeros(1 << 18), "small": np.zeros(2000), "text": "x" * 100_000}
        received = unisono.all_gather_object(mine) + (unisono.gather_object(mine) or []) + [unisono.scatter_object([mine] * self.size)]
        if self.rank != 0:
            received.append(unisono.broadcast_object(mine))
        else:
            unisono.broadcast_object(mine)
        if self.rank == 0 and self.size > 1:
            unisono.send_object(mine, 1)
        elif self.rank == 1:
            received.append(unisono.recv_object(0))
        for x in received:
            for name in ("large", "small"):
                base = x[name]
                while isinstance(base, np.ndarray):
                    base = base.base
                self.assertEqual(len(memoryview(base).obj), x[name].nbytes)

    def test_gather_object_gives_the_root_all_objects(self):
        for dst in range(self.size):
            all = unisono.gather_object(rich(self.rank), dst)
            if self.rank != dst:
                self.assertIsNone(all)
                continue
            for r, x in enumerate(all):
                self.equal(x, rich(r))
        one = unisono.gather_object(np.full(4096, self.rank))
        if self.rank == 0:
            self.same(one, np.stack([np.full(4096, r) for r in range(self.size)]))

    def test_broadcast_object_gives_everybody_that_of_the_root(self):
        for src in range(self.size):
            mine = rich(self.rank)
            x = unisono.broadcast_object(mine if self.rank == src else None, src)
            self.equal(x, rich(src))
            if self.rank == src:
                self.assertIs(x, mine)
            else:
                x["large"][0] = 5  # it can be written to
        objects = [1, "two", np.arange(3)] if self.rank == 0 else []
        self.assertIs(unisono.broadcast_object_list(objects), objects)
        self.assertEqual(objects[:2], [1, "two"])
        self.assertEqual(unisono.broadcast_object(pathlib.Path("/a") if self.rank == 0 else 7), pathlib.Path("/a"))

    def test_scatter_object_gives_each_rank_its_element(self):
        for src in range(self.size):
            x = unisono.scatter_object([rich(r + src) for r in range(self.size)] if self.rank == src else None, src)
            self.equal(x, rich(self.rank + src))
        if self.size > 1:
            error = self.refused(
                unisono.InvalidArgument, "1 objects for a group", unisono.scatter_object, [1] if self.rank == 0 else None
            )
            self.assertEqual(error.culprit, 0)

    def test_objects_travel_between_two_ranks(self):
        if self.size == 1:
            self.skipTest("nobody sends to itself")
        right, left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        unisono.send_object({"a": self.rank}, right)
        self.assertEqual(unisono.recv_object(left), {"a": left})
        if self.rank == 0:
            unisono.send_object(rich(3), 1, tag=5)
        elif self.rank == 1:
            self.equal(unisono.recv_object(unisono.any_source, tag=unisono.any_tag), rich(3))
        unisono.barrier()
        if self.rank == 0:
            unisono.send_object([np.arange(200_000) + i for i in range(3)], 1)
            unisono.send(np.ones(2), 1)
        elif self.rank == 1:
            info = unisono.probe(0)
            self.assertTrue(info.is_object)
            for i, x in enumerate(unisono.recv_object(0)):
                self.same(x, np.arange(200_000) + i)
            unisono.recv(np.empty(2), 0)
        unisono.barrier()

    def test_an_object_that_cannot_be_pickled_is_an_error_on_every_rank(self):
        bad = self.size - 1
        calls = [
            lambda x: unisono.all_gather_object(x),
            lambda x: unisono.gather_object(x),
            lambda x: unisono.broadcast_object(x, bad),
            lambda x: unisono.all_gather(x),
        ]
        for call in calls:
            if self.rank == bad:
                self.refused(TypeError, "stays here", call, Unpicklable())
            else:
                error = self.refused(unisono.InvalidArgument, "TypeError: this one stays here", call, "fine")
                self.assertEqual(error.culprit, bad)
        self.assertEqual(unisono.all_gather_object(1), [1] * self.size)

    def test_an_object_beyond_the_limit_is_refused(self):
        # The limit is the process's, which ranks that are threads share.
        before = unisono.object_limits()
        unisono.barrier()
        unisono.set_object_limits(10_000)
        unisono.barrier()
        error = self.refused(unisono.InvalidArgument, "limit", unisono.all_gather_object, np.ones(10_000))
        self.assertEqual(error.operation, "all_gather_object")
        unisono.barrier()
        unisono.set_object_limits(before)
        unisono.barrier()
        self.refused(unisono.InvalidArgument, "", unisono.set_object_limits, 0)
        unisono.set_object_limits(5 << 30)  # as much as memory has
        unisono.barrier()
        self.assertEqual(unisono.object_limits(), 5 << 30)
        unisono.barrier()
        unisono.set_object_limits(before)
        unisono.barrier()

    def test_roots_that_differ_are_a_mismatch(self):
        if self.size > 1:
            self.refused(unisono.Mismatch, "root", unisono.gather_object, 1, 0 if self.rank == 0 else 1)


if __name__ == "__main__":
    main()
