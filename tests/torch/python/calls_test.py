"""Calls of torch.distributed beside the collectives on tensors: messages, works, threads, objects, groups, barriers. Run as several ranks."""

import os
import threading
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist

import unisono.torch
from covers import covers
from ranks import RankTest, distinct, main


class Calls(RankTest):
    @covers("TS-06", "TS-31", "B-24")
    def test_messages_arrive_in_batches_and_one_by_one(self):
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
        pair = dist.new_group([0, self.size - 1])
        x = torch.empty(4)
        if self.rank == 0:
            dist.send(distinct(5, (4,)), self.size - 1, group=pair, tag=9)
        elif self.rank == self.size - 1:
            dist.recv(x, 0, group=pair, tag=9)
            self.same(x, distinct(5, (4,)))
        for wrong in (dist.send, dist.isend):
            self.assertRaises(ValueError, wrong, x, self.rank)
        self.assertRaises(ValueError, dist.batch_isend_irecv, [x])
        self.assertRaises(ValueError, dist.P2POp, dist.all_reduce, x, following)
        dist.barrier()

    @covers("TS-02")
    def test_works_and_futures_complete(self):
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
        # A call that nobody keeps is carried out all the same, with memory that nobody else keeps.
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

    @covers("TS-32", "TS-33", "TS-34", "TS-35", "TS-36")
    def test_objects_are_gathered_and_broadcast(self):
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
        received = [None, None]
        if self.rank == 0:
            dist.send_object_list([{"a": (1,)}, "é"], 1)
        elif self.rank == 1:
            self.assertEqual(dist.recv_object_list(received, 0), 0)
            self.assertEqual(received, [{"a": (1,)}, "é"])
        self.assertRaises(ValueError, dist.send_object_list, ["x"], self.rank)
        self.assertRaises(ValueError, dist.scatter_object_list, [], [1] * self.size)

    @covers("TS-16")
    def test_groups_reduce_among_their_ranks_alone(self):
        pair = dist.new_group([self.size - 1, 0])  # in the order of the ranks, whatever is said
        if self.rank in (0, self.size - 1):
            x = distinct(self.rank, (3,))
            dist.all_reduce(x, group=pair)
            self.same(x, distinct(0, (3,)) + distinct(self.size - 1, (3,)))
            dist.destroy_process_group(pair)
            self.assertRaises(ValueError, dist.destroy_process_group, pair)
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

    def test_profiler_names_the_calls(self):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
            dist.all_reduce(torch.ones(4, 4))
            dist.broadcast(torch.ones(2), 0)
        events = {event.name: event for event in profile.events()}
        self.assertEqual(events["unisono:all_reduce"].input_shapes, [[4, 4]])
        self.assertIn("unisono:broadcast", events)

    @covers("TS-37", "TS-38")
    def test_a_barrier_lets_nobody_pass_before_all_have_come(self):
        dist.barrier()
        dist.barrier(async_op=True).wait()
        dist.monitored_barrier()
        dist.monitored_barrier(wait_all_ranks=True)
        # Nobody passes a barrier before all have come: the last one says so in the store as it comes.
        store = dist.PrefixStore("barriers", dist.distributed_c10d._get_default_store())
        late = self.size - 1
        for round, barrier in enumerate((dist.barrier, dist.monitored_barrier, lambda: dist.barrier(async_op=True).wait())):
            if self.rank == late:
                for r in range(late):
                    store.get(f"{round} waits {r}")
                time.sleep(0.05)  # one that does not wait is through by then
                store.set(f"{round} comes", "")
                barrier()
            else:
                store.set(f"{round} waits {self.rank}", "")
                barrier()
                self.assertTrue(store.check([f"{round} comes"]), round)
        short = dist.new_group()
        if self.rank == 0:
            with self.assertRaisesRegex(RuntimeError, "[Rr]anks? 1"):
                dist.monitored_barrier(short, timeout=timedelta(seconds=0.3))
        dist.barrier()


class Since2018(RankTest):
    """What came to torch.distributed since 2018."""

    @covers("TS-01")
    def test_every_collective_takes_async_op(self):
        n, every = self.size, self.every((2,))
        x = lambda: distinct(self.rank, (2,))  # noqa: E731
        whole = lambda: torch.empty(2 * n)  # noqa: E731
        parts = lambda: [torch.empty(2) for _ in range(n)]  # noqa: E731
        columns = [distinct(self.rank + 3 * r, (2,)) for r in range(n)]
        total, mine, first = sum(every), sum(distinct(s + 3 * self.rank, (2,)) for s in range(n)), self.rank == 0
        crossed = [distinct(s + 3 * self.rank, (2,)) for s in range(n)]
        for name, output, arguments, expected in (
            ("all_reduce", x(), (), total),
            ("broadcast", x(), (1,), every[1]),
            ("reduce", x(), (0,), total if first else every[self.rank]),
            ("all_gather", parts(), (x(),), every),
            ("all_gather_into_tensor", whole(), (x(),), torch.cat(every)),
            ("reduce_scatter", torch.empty(2), (columns,), mine),
            ("reduce_scatter_tensor", torch.empty(2), (torch.cat(columns),), mine),
            ("all_to_all", parts(), (columns,), crossed),
            ("all_to_all_single", whole(), (torch.cat(columns),), torch.cat(crossed)),
            ("scatter", torch.empty(2), (columns if first else None,), distinct(3 * self.rank, (2,))),
        ):
            work = getattr(dist, name)(output, *arguments, async_op=True)
            self.assertIsInstance(work, dist.Work, name)
            work.wait()
            self.assertTrue(work.is_completed(), name)
            self.same(output, expected, name)
        gathered = parts() if first else None
        dist.gather(x(), gathered, async_op=True).wait()
        self.assertFalse(first and not torch.equal(torch.stack(gathered), torch.stack(every)))
        self.assertIsNone(dist.all_reduce(x()))

    @covers("TS-03", "TS-04", "TS-05")
    def test_a_rank_outside_of_a_group_has_no_rank_there(self):
        last = self.size - 1
        group = dist.new_group([0])
        if self.rank == 0:
            self.assertEqual((dist.get_rank(group), dist.get_world_size(group)), (0, 1))
            self.assertEqual((dist.get_group_rank(group, 0), dist.get_global_rank(group, 0), dist.get_process_group_ranks(group)), (0, 0, [0]))
            self.assertRaises(ValueError, dist.get_group_rank, group, last)
        else:
            self.assertEqual((dist.get_rank(group), dist.get_world_size(group)), (-1, -1))
            x = distinct(self.rank, (3,))
            with self.assertWarns(UserWarning):
                self.assertIsNone(dist.all_reduce(x, group=group))
            self.same(x, distinct(self.rank, (3,)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertEqual(dist.recv(x, 0, group=group), -1)
        ends = dist.new_group([0, last])
        if self.rank == last:
            self.assertEqual((dist.get_rank(ends), dist.get_group_rank(ends, last), dist.get_global_rank(ends, 1)), (1, 1, last))
        world = dist.group.WORLD
        self.assertEqual((dist.get_group_rank(world, last), dist.get_process_group_ranks(world)), (last, list(range(self.size))))

    @covers("TS-07", "TS-08", "TS-09", "TS-10")
    def test_arguments_are_checked(self):
        back, x = dist.new_group(list(range(self.size))), distinct(self.rank, (3,))
        dist.broadcast(x, group_src=1, group=back)
        self.same(x, distinct(1, (3,)))
        self.assertRaises(ValueError, dist.broadcast, x, src=0, group_src=0, group=back)
        for wrong in (dist.all_reduce, dist.broadcast, dist.reduce, dist.send):
            with self.assertRaisesRegex(TypeError, "torch.Tensor"):
                wrong([1.0], *(() if wrong is dist.all_reduce else ((self.rank + 1) % self.size,)))
        with self.assertRaisesRegex(ValueError, "different dtypes"):
            dist.all_gather([torch.empty(3, dtype=torch.float64)] * self.size, x)
        parts = [torch.empty(3) for _ in range(self.size)] if self.rank == 0 else None
        dist.gather(distinct(self.rank, (3,)), parts)  # to rank 0
        self.assertTrue(parts is None or torch.equal(torch.stack(parts), torch.stack(self.every((3,)))))
        dist.scatter(x, self.every((3,)) if self.rank == 0 else None)
        self.same(x, distinct(self.rank, (3,)))
        with self.assertRaisesRegex(ValueError, "must be specified" if self.rank == 0 else "must NOT be specified"):
            dist.gather(x, None if self.rank == 0 else [x])

    @covers("TS-11", "TS-12", "TS-13", "TS-14", "TS-15", "TS-39", "TS-40", "TS-46")
    def test_the_backend_is_known_by_its_name(self):
        with self.assertRaisesRegex(ValueError, "twice"):
            dist.init_process_group("unisono")
        self.assertTrue(dist.is_backend_available("unisono"))
        self.assertEqual((dist.Backend("Unisono"), dist.get_backend(), dist.get_backend(dist.new_group())), ("unisono",) * 3)
        self.assertIn("cpu:unisono", dist.get_backend_config())
        self.assertRaises(ValueError, dist.new_group, backend="cpu:unisono,cpu:gloo")
        dist.Backend.register_backend("twin", unisono.torch.create, extended_api=True, devices=["cpu"])
        for backend in ("cpu:unisono,cuda:unisono", "twin"):
            x = distinct(self.rank, (3,))
            dist.all_reduce(x, group=dist.new_group(backend=backend))
            self.same(x, sum(self.every((3,))))
        self.assertEqual(dist.get_node_local_rank(), self.rank)
        self.assertEqual(dist.is_torchelastic_launched(), "TORCHELASTIC_RUN_ID" in os.environ)
        before, _ = dist.get_pg_count(), dist.new_group()
        self.assertEqual(dist.get_pg_count(), before + 1)
        self.assertEqual((dist.distributed_c10d.supports_complex(dist.ReduceOp.SUM), dist.distributed_c10d.supports_complex(dist.ReduceOp.MAX)), (True, False))

    @covers("TS-17", "TS-18", "TS-19")
    def test_groups_are_made_in_every_way(self):
        mine = dist.new_group([self.rank], timeout=timedelta(seconds=30), use_local_synchronization=True, group_desc=f"rank {self.rank} alone")
        x = distinct(self.rank, (3,))
        dist.all_reduce(x, group=mine)
        self.same(x, distinct(self.rank, (3,)))
        self.assertIsNone(dist.new_group([(self.rank + 1) % self.size], use_local_synchronization=True))
        for wrong in ([self.size], [-1], list(range(self.size + 1))):
            self.assertRaises((ValueError, RuntimeError), dist.new_group, wrong)
        own, every = dist.new_subgroups(self.size)
        self.assertEqual((dist.get_process_group_ranks(own), len(every)), (list(range(self.size)), 1))
        for size in (0, self.size + 1):
            self.assertRaises(ValueError, dist.new_subgroups, size)
        own, _ = dist.new_subgroups_by_enumeration([[r] for r in reversed(range(self.size))])
        self.assertEqual(dist.get_process_group_ranks(own), [self.rank])
        self.assertRaises(ValueError, dist.new_subgroups_by_enumeration, [])

    @covers("TS-44")
    def test_the_debug_level_compares_the_calls(self):
        before = dist.get_debug_level()
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        try:
            group = dist.new_group()
        finally:
            dist.set_debug_level(before)
        x = distinct(self.rank, (3,))
        dist.all_reduce(x, group=group)
        self.same(x, sum(self.every((3,))))
        with self.assertRaisesRegex(RuntimeError, "(?s)all_reduce|ALLREDUCE"):
            dist.all_reduce(torch.ones(2, 3) if self.rank == 0 else torch.ones(3, 2), group=group)
        dist.barrier()

    @covers("TS-20", "TS-22", "TS-43")
    def test_a_group_is_split_and_aborted(self):
        with self.assertRaises((ValueError, RuntimeError)):
            dist.split_group(split_ranks=None)
        half = dist.group.WORLD.split_group([0, self.size - 1], group_name="ends", group_desc="the ends")
        if self.rank in (0, self.size - 1):
            x = distinct(self.rank, (3,))
            half.allreduce([x]).wait()
            self.same(x, distinct(0, (3,)) + distinct(self.size - 1, (3,)))
        doomed = dist.new_group()
        dist.barrier(doomed)
        doomed._get_backend(torch.device("cpu")).abort()
        with self.assertRaises(dist.DistBackendError):
            dist.all_reduce(torch.ones(1), group=doomed)
        self.assertTrue(issubclass(dist.DistBackendError, dist.DistError) and issubclass(dist.DistError, RuntimeError))


if __name__ == "__main__":
    main()
