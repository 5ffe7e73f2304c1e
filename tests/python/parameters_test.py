"""Dictionaries and parameters, results, what one rank does, samplers, stores."""

import os
import socket
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import unisono
from covers import covers
from ranks import RankTest, main


class Parameters(RankTest):
    def test_averages_of_buffers_numbers_and_dictionaries_are_right(self):
        x = self.mine((4,))
        self.assertIs(unisono.average_across_processes(x), x)
        self.same(x, sum(self.all((4,))) / self.size)
        self.assertEqual(unisono.average_across_processes(self.rank + 0.5), self.size / 2)
        entries = {"b": self.rank + 0.5, "a": np.full(2, float(self.rank))}
        if self.rank % 2:
            entries = dict(reversed(entries.items()))
        self.assertIs(unisono.average_across_processes(entries), entries)
        self.assertEqual(entries["b"], self.size / 2)
        self.same(entries["a"], np.full(2, (self.size - 1) / 2))

    def test_all_reduce_dict_combines_the_entries_of_a_key(self):
        entries = {"loss": self.rank + 1, "count": np.array([self.rank, 1])}
        unisono.all_reduce_dict(entries, "max")
        self.assertEqual(entries["loss"], self.size)
        self.same(entries["count"], [self.size - 1, 1])
        self.assertEqual(unisono.all_reduce_dict({}), {})
        if self.size > 1:
            self.refused(unisono.Mismatch, "", unisono.all_reduce_dict, {"a" if self.rank == 0 else "b": 1.0})
        self.refused(unisono.InvalidArgument, "str", unisono.all_reduce_dict, {1: 1.0})

    def test_all_reduce_params_combines_every_parameter(self):
        for how in ({}, {"coalesce": False}, {"bucket_size_mb": 1}, {"op": "max"}):
            params = [self.mine((n,), dtype) for n, dtype in ((5, "float32"), (7, "float64"), (3, "float32"))]
            unisono.all_reduce_params((p for p in params), **how)
            for p, (n, dtype) in zip(params, ((5, "float32"), (7, "float64"), (3, "float32"))):
                all = self.all((n,), dtype)
                self.same(p, np.max(all, axis=0) if "op" in how else sum(all))
        self.refused(unisono.InvalidArgument, "MiB", unisono.all_reduce_params, [], bucket_size_mb=0)

    def test_the_seed_is_the_same_on_all_ranks(self):
        seeds = unisono.all_gather(unisono.sync_random_seed())
        self.assertEqual(len(set(seeds)), 1)
        self.assertLess(seeds[0], 2**31)

    def test_results_are_collected_in_the_order_of_the_data(self):
        part = [(self.rank, i, np.full(3000, i)) for i in range(3 - self.rank % 2)]
        total = sum(3 - r % 2 for r in range(self.size))
        folder = unisono.broadcast_object(tempfile.mkdtemp() if self.rank == 0 else None)
        for how in ({}, {"via": "shared_dir", "tmpdir": folder}):
            results = unisono.collect_results(part, total - 1, **how)
            if self.rank:
                self.assertIsNone(results)
                continue
            expected = [(r, i) for i in range(3) for r in range(self.size) if i < 3 - r % 2][: total - 1]
            self.assertEqual([(r, i) for r, i, _ in results], expected)
            self.assertTrue(all((x == i).all() for _, i, x in results))
        self.refused(unisono.InvalidArgument, "telepathy", unisono.collect_results, [], 0, via="telepathy")


class OneRank(RankTest):
    def test_one_rank_only_runs_a_function_on_one_rank(self):
        last = self.size - 1

        @unisono.one_rank_only(rank=last)
        def who(x, y=1):
            """Doc."""
            return self.rank + x * y

        self.assertEqual(who(2, y=3), last + 6 if self.rank == last else None)
        self.assertEqual(who.__doc__, "Doc.")
        self.assertEqual(unisono.one_rank_only(lambda: 5)(), 5 if self.rank == 0 else None)
        self.assertEqual(unisono.one_rank_only(lambda: 5, with_barrier=True, group=unisono.world())(), 5 if self.rank == 0 else None)
        self.refused(unisono.InvalidArgument, "", unisono.one_rank_only(lambda: 5, rank=self.size))

    def test_a_failure_of_the_one_rank_reaches_the_others(self):
        @unisono.one_rank_only(with_barrier=True)
        def fail():
            raise KeyError("lost")

        if self.rank == 0:
            with self.assertRaises(KeyError):
                fail()
        else:
            error = self.refused(unisono.PeerFailed, "KeyError: 'lost'", fail)
            self.assertEqual((error.culprit, error.cause), (0, "aborted"))
        unisono.barrier()

    def test_the_first_rank_passes_its_scope_before_the_others(self):
        x = np.zeros(1)
        with unisono.OneRankFirst(rank=self.size - 1) as scope:
            self.assertEqual(scope.is_first, self.rank == self.size - 1)
            x[0] = 1
        with unisono.OneRankFirst(local=True):
            pass
        scope = unisono.OneRankFirst()
        if self.rank == 0:
            with self.assertRaises(ZeroDivisionError):
                with scope:
                    1 / 0
        else:
            error = self.refused(unisono.PeerFailed, "", scope.__enter__)
            self.assertEqual(error.culprit, 0)
        unisono.barrier()
        self.refused(unisono.InvalidArgument, "rank", unisono.OneRankFirst(rank=self.size).__enter__)

    def test_rank_0_is_the_main_process(self):
        self.assertEqual(unisono.is_main_process(), self.rank == 0)
        self.assertEqual(unisono.is_master_process(), self.rank == 0)
        self.assertEqual((unisono.gpu_mem_usage(), unisono.gpu_mem_peak()), (0, 0))


class Samplers(RankTest):
    def test_every_sample_is_of_one_rank_in_each_epoch(self):
        sampler = unisono.DistributedSampler(12 * self.size, seed=3)
        self.assertEqual((len(sampler), sampler.total_size()), (12, 12 * self.size))
        orders = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            mine = list(sampler)
            self.assertEqual(mine, sampler.indices())
            orders.append(mine)
            self.assertEqual(sorted(i for part in unisono.all_gather_object(mine) for i in part), list(range(12 * self.size)))
        self.assertNotEqual(*orders)
        plain = unisono.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        self.assertEqual(list(plain), [1, 3, 0])
        self.assertEqual(list(unisono.DistributedSampler([0] * 5, num_replicas=2, rank=1, shuffle=False, drop_last=True)), [1, 3])
        self.refused(unisono.InvalidArgument, "", unisono.DistributedSampler, 5, num_replicas=2, rank=2)

    def test_a_sampler_warns_once_of_an_epoch_that_comes_again(self):
        program = "import unisono; s = unisono.DistributedSampler(10, num_replicas=2, rank=0); list(s); list(s); list(s)"
        environment = {name: value for name, value in os.environ.items() if name != "UNISONO_LOG"}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr.count("set_epoch")), (0, 1), done.stderr)

    def test_a_proxy_shares_out_what_any_sampler_yields(self):
        proxy = unisono.DistributedProxySampler([5, 6, 7, 8], num_replicas=2, rank=0)
        self.assertEqual((list(proxy), len(proxy)), ([5, 7], 2))

        class Drawn:
            def __len__(self):
                return 10

            def draw(self, random):
                return random.sample(range(10), 10)

        halves = [unisono.DistributedProxySampler(Drawn(), num_replicas=2, rank=r, seed=4) for r in range(2)]
        self.assertEqual(sorted([*halves[0], *halves[1]]), list(range(10)))
        before = list(halves[0])
        self.assertEqual(before, list(halves[0]))
        halves[0].set_epoch(1)
        self.assertNotEqual(before, list(halves[0]))
        self.refused(unisono.InvalidArgument, "distributed already", unisono.DistributedProxySampler, halves[0])
        self.refused(unisono.InvalidArgument, "length", unisono.DistributedProxySampler, iter([1]))

    def test_an_exact_proxy_repeats_nothing(self):
        sampler = [5, 6, 7, 8, 9]
        parts = [unisono.DistributedProxySampler(sampler, num_replicas=2, rank=r, exact=True) for r in range(2)]
        self.assertEqual([list(part) for part in parts], [[5, 7, 9], [6, 8]])
        self.assertEqual([len(part) for part in parts], [3, 2])
        self.assertEqual(len(unisono.DistributedProxySampler(sampler, num_replicas=2, rank=1)), 3)
        self.assertIs(parts[0].sampler(), sampler)


    def test_an_exact_proxy_refuses_a_sampler_that_does_not_yield_its_length(self):
        class Wrong(list):
            def __len__(self):
                return 4

        for yielded, words in (([0, 1, 2], "yields 3"), ([0, 1, 2, 3, 4], "yields more"), ([], "yields 0")):
            proxy = unisono.DistributedProxySampler(Wrong(yielded), num_replicas=2, rank=0, exact=True)
            self.refused(unisono.InvalidArgument, words, list, proxy)
        self.assertEqual(list(unisono.DistributedProxySampler(Wrong([0, 1, 2]), num_replicas=2, rank=1)), [1, 0])

    def test_what_is_no_index_is_refused(self):
        for sampler, words in (([-1, 2], "this is -1"), ("ab", "this is 'a'"), ([1.5], "this is 1.5"), ([None], "this is None")):
            self.refused(unisono.InvalidArgument, words, list, unisono.DistributedProxySampler(sampler, num_replicas=1, rank=0))


class Plans(RankTest):
    @covers("A-02", "A-03", "A-04", "A-05")
    def test_batch_and_workers_are_shared_out(self):
        place = dict(rank=7, world_size=8, nproc_per_node=4)
        plan = unisono.plan_loader(batch_size=30, num_workers=10, dataset_size=100, **place)
        self.assertEqual((plan.batch_size, plan.total_batch_size, plan.num_workers, plan.total_workers), (3, 24, 3, 12))
        self.assertEqual(len(plan.notes), 1)
        self.assertIn("24 in all", plan.notes[0])
        even = unisono.plan_loader(batch_size=30, split="even_remainder", dataset_size=100, **place)
        self.assertEqual((even.batch_size, even.batch_sizes), (3, [4, 4, 4, 4, 4, 4, 3, 3]))
        self.assertEqual(unisono.plan_loader(batch_size=30, split="per_rank", dataset_size=100, **place).total_batch_size, 240)
        self.assertEqual(unisono.plan_loader(batch_size=1, dataset_size=100, **place).batch_size, 1)
        absent = unisono.plan_loader(dataset_size=100, **place)
        self.assertEqual((absent.batch_size, absent.batch_sizes, absent.total_batch_size), (None, [], 0))

    @covers("A-07", "A-08", "A-09", "A-11", "A-12", "A-13")
    def test_the_plan_names_the_sampler(self):
        for how, sampler in ((dict(dataset_size=9), "distributed"), (dict(dataset_size=9, sampling="other"), "proxy"), (dict(), "none"),
                             (dict(dataset_size=9, sampling="batch_sampler"), "given")):
            self.assertEqual(unisono.plan_loader(rank=0, world_size=2, **how).sampler, sampler)
        given = unisono.plan_loader(dataset_size=9, sampling="distributed", given_rank=2, given_replicas=5, rank=1, world_size=4)
        self.assertEqual((given.sampler, len(given.warnings)), ("given", 2))
        self.assertIn("rank 2", given.warnings[0])
        self.assertIn("5 replicas", given.warnings[1])
        plan = unisono.plan_loader(dataset_size=9, shuffle=True, drop_last=True, rank=0, world_size=2)
        self.assertEqual((plan.sampler_shuffles, plan.loader_shuffles, plan.drop_last), (True, False, True))

    @covers("A-01")
    def test_the_plan_is_of_this_rank_unless_another_is_named(self):
        plan = unisono.plan_loader(batch_size=self.size + 2, split="even_remainder", dataset_size=100)
        self.assertEqual(sum(unisono.all_gather(plan.batch_size)), self.size + 2)
        self.assertEqual(plan.batch_size, plan.batch_sizes[self.rank])
        self.assertEqual(unisono.plan_loader(batch_size=5, dataset_size=100, shuffle=True, rank=0, world_size=1).loader_shuffles, True)

    def test_a_rank_and_a_world_size_come_together(self):
        for half in (dict(world_size=2), dict(rank=0), dict(nproc_per_node=1), dict(rank=0, nproc_per_node=1)):
            self.refused(unisono.InvalidArgument, "a rank and a world_size", unisono.plan_loader, batch_size=3, split="even_remainder", **half)

    @covers("A-10")
    def test_wrong_plans_are_refused(self):
        for wrong in (dict(batch_size=0), dict(batch_size=-1), dict(num_workers=-1), dict(shuffle=True, sampling="other"), dict(split="ceiling"),
                      dict(sampling="random"), dict(rank=2, world_size=2), dict(dataset_size=-1),
                      dict(batch_size=7, split="even_remainder", rank=0, world_size=8)):
            error = self.refused(unisono.InvalidArgument, "plan_loader", unisono.plan_loader, **wrong)
            self.assertTrue(error.where.file.endswith("ranks.py"), error)


class Stores(RankTest):
    def test_every_store_keeps_adds_and_compares_values(self):
        with tempfile.TemporaryDirectory() as folder:
            memory = unisono.MemoryStore()
            server = unisono.TcpStore("127.0.0.1", 0, is_server=True)
            client = unisono.TcpStore("127.0.0.1", server.port)
            for store in (memory, unisono.FileStore(folder + "/store"), server, client, unisono.PrefixStore("a/", memory)):
                store.set("key", "text")
                self.assertEqual(store.get("key"), b"text")
                store.set("key", b"\0\xff")
                self.assertEqual(store.try_get("key"), b"\0\xff")
                self.assertIsNone(store.try_get("other"))
                self.assertEqual((store.add("n", 5), store.add("n", -2)), (5, 3))
                self.assertEqual(store.compare_set("key", b"\0\xff", "new"), b"new")
                self.assertEqual(store.compare_set("key", "wrong", "newer"), b"new")
                store.wait(["key", "n"], timeout=5)
                self.assertTrue(store.erase("key"))
                self.assertFalse(store.erase("key"))
                error = self.refused(unisono.Timeout, "other", store.get, "other", timeout=0.05)
                self.assertIsInstance(error, TimeoutError)
                self.assertGreaterEqual(store.num_keys(), 1)
                store.erase("n")
                store.timeout = 7
                self.assertEqual(store.timeout, 7.0)
            self.assertEqual(server.host, "127.0.0.1")

    def test_a_server_takes_over_a_socket_that_listens(self):
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server = unisono.TcpStore("127.0.0.1", port, is_server=True, listen_fd=listener.detach())
        unisono.TcpStore("127.0.0.1", port).set("key", "text")
        self.assertEqual((server.port, server.get("key")), (port, b"text"))


    def test_a_server_refuses_a_socket_that_is_not_at_its_address(self):
        def listening():
            return socket.create_server(("127.0.0.1", 0)).detach()

        for host, port, fd, words in (
            ("127.0.0.1", 1, listening(), "listens at 127.0.0.1:"),
            ("127.0.0.2", 0, listening(), "listens at 127.0.0.1:"),
            ("127.0.0.1", 0, socket.socket().detach(), "does not listen"),
            ("127.0.0.1", 0, -7, "-1 for none"),
            ("127.0.0.1", 1 << 16, listening(), "65535"),
        ):
            self.refused(unisono.InvalidArgument, words, unisono.TcpStore, host, port, is_server=True, listen_fd=fd)


class Ints(RankTest):
    def test_no_result_of_ints_is_wrapped(self):
        n = self.size
        most = (2**63 - 1) // n
        for x in (most, -most):
            self.assertEqual(unisono.all_reduce(x), x * n)
            self.assertEqual(unisono.all_reduce(x, "avg"), x)
            self.assertEqual(unisono.scan(x), x * (self.rank + 1))
            self.assertEqual(unisono.all_reduce_dict({"x": x})["x"], x * n)
        root = int((2**63 - 1) ** (1 / n)) if n > 1 else 2**62
        self.assertEqual(unisono.all_reduce(root - 1, "product"), (root - 1) ** n)
        self.assertEqual(unisono.all_reduce(2**62, "max"), 2**62)
        self.assertEqual(unisono.broadcast(2**62), 2**62)
        if n == 1:
            return
        calls = [unisono.all_reduce, unisono.scan, unisono.exscan, unisono.average_across_processes, lambda x: unisono.all_reduce(x, "avg"),
                 lambda x: unisono.reduce(x, 0), lambda x: unisono.all_reduce_dict({"x": x}), lambda x: unisono.all_reduce(x, "product")]
        for call in calls:
            for x in (most + 1, -most - 1):
                self.refused(unisono.InvalidArgument, f"of {n} ints as large as {x} needs more", call, x)
        self.refused(unisono.InvalidArgument, "the product of", unisono.all_reduce, root + 2, "product")
        self.assertEqual(int(unisono.all_reduce(np.int64(2**62))) % 2**64, 2**62 * n % 2**64)  # NumPy's wrap, as they do there


class Alignment(RankTest):
    def test_complex_numbers_are_aligned_as_their_parts(self):
        for parts, dtype in ((np.float32, np.complex64), (np.float64, np.complex128)):
            x = np.arange(10, dtype=parts)[1:9].view(dtype)
            expected = np.array(x) * self.size
            self.assertTrue(x.flags.aligned)
            self.assertNotEqual(x.ctypes.data % np.dtype(dtype).itemsize, 0)
            self.same(unisono.all_reduce(x), expected)
        odd = np.frombuffer(bytearray(17), np.uint8)[1:].view(np.complex64)
        self.refused(unisono.InvalidArgument, "not aligned", unisono.all_reduce, odd)


if __name__ == "__main__":
    main()
