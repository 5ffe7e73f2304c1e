"""Calls of torch.distributed beside the collectives on tensors: messages, works, threads, objects, groups, barriers. Run as several ranks."""

import threading

import torch
import torch.distributed as dist

from ranks import RankTest, distinct, main


class Calls(RankTest):
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
