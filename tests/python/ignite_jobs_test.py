"""unisono.ignite in jobs: what the original gets wrong, failures, ways to meet, and programs of pytorch-ignite around it. Starts its own jobs."""

import importlib.util
import os
import re
import sys
import unittest

from covers import covers
from ignite_programs import IgniteTest
from jobs import UNISONO

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("unisono.torch") is None:
    print("skipped: the package torch or unisono-torch is missing")
    raise SystemExit(0)


class IgniteJobs(IgniteTest):
    @covers("K-21", "K-22", "K-24", "K-25", "K-28", "K-29", "K-38", "K-75", "K-78", "C-05", "Q-04", "Q-26", "B-22", "B-26", "I-13")
    def test_values_of_every_kind_arrive_as_they_are(self):
        output = self.ranks(
            """
            before = dict(os.environ)
            idist.initialize("gloo", timeout=100)
            assert dict(os.environ) == before
            r, n = idist.get_rank(), idist.get_world_size()
            assert (idist.get_local_rank(), idist.get_nproc_per_node(), idist.get_nnodes(), idist.get_node_rank()) == (r, n, 1, 0)
            # texts in bytes, numbers with all their bits, objects of any kind
            assert idist.all_gather("é" * (10 + 400 * r)) == ["é" * (10 + 400 * k) for k in range(n)]
            assert idist.all_gather([1 << 70, True, 0.5][r]) == [1 << 70, True, 0.5] and type(idist.all_gather(True)[0]) is bool
            for value in (16777217, True, 1 << 70, "é" * 10, [1, {"a": (2,)}], Path("/x")):
                got = idist.broadcast(value if r == 1 else type(value)(), src=1)
                assert got == value and type(got) is type(value), got
            assert idist.all_reduce(2**62 // n + r) == (2**62 // n) * n + n * (n - 1) // 2
            assert idist.all_reduce(r == 1, "OR") is True and idist.all_reduce(r == 1, "AND") is False
            assert idist.all_reduce(r + 1, "xor") == 0 and idist.all_reduce(float(r), "AVG") == (n - 1) / 2
            assert idist.all_reduce(torch.tensor([r, -r - 1]), "mean").tolist() == [1, -2]
            for much, op in ((1 << 63, "SUM"), ((1 << 63) // n + 1, "SUM"), (-(1 << 62), "mean"), (1 << 21, "PRODUCT"), (-(1 << 22), "product")):
                assert isinstance(error_of(lambda: idist.all_reduce(much, op)), ValueError), (much, op)
            assert idist.all_reduce(1 << 20, "PRODUCT") == 1 << 60 and idist.all_reduce((1 << 63) - 1 - r, "MAX") == (1 << 63) - 1
            # tensors of any layout, in place
            x = torch.arange(6.0).reshape(2, 3).t() * (r + 1)
            assert idist.all_reduce(x) is x and torch.equal(x, torch.arange(6.0).reshape(2, 3).t() * 6)
            y = (torch.arange(6.0).reshape(2, 3) * (r + 1)).t()
            idist.broadcast(y, src=2)
            assert torch.equal(y, torch.arange(6.0).reshape(2, 3).t() * 3)
            assert torch.equal(idist.all_gather(y[:, :1] + r), torch.cat([y[:, :1] + k for k in range(n)]))
            # safe mode: nothing, sparse or nothing that can be sent is every rank's error
            for wrong in (None, torch.ones(2).to_sparse(), lambda: 1):
                told = error_of(lambda: idist.broadcast(wrong if r == 0 else 5, safe_mode=True))
                assert isinstance(told, Exception) and (r == 0 or isinstance(told, ValueError) and "rank 0" in str(told)), told
            assert isinstance(error_of(lambda: idist.all_gather((lambda: 1) if r == 1 else 1)), Exception)
            kept = torch.zeros(2, 2, dtype=torch.int16)
            assert idist.broadcast(torch.full((2, 2), 7, dtype=torch.int16) if r == 1 else kept, src=1, safe_mode=True).eq(7).all()
            assert r == 1 or kept.eq(7).all()
            # groups: a list forms one once, whose calls ask nobody else
            assert idist.all_gather("é" * r, group=[1, 2]) == (["é", "éé"] if r else "")
            pairs = len(dist.distributed_c10d._world.pg_map)
            if r:
                assert idist.all_reduce((1 << 62) - r, group=[1, 2]) == (1 << 63) - 3 and idist.all_reduce(r, group=[1, 2]) == 3 and idist.all_reduce(torch.tensor(r), group=[2, 1]).item() == 3
                assert idist.broadcast(f"from {r}", src=2, group=[1, 2]) == "from 2"
                idist.barrier(group=[1, 2])
            else:
                assert idist.all_reduce(5, group=[1, 2]) == 5 and idist.utils._rank_not_in_group([1, 2])
            assert len(dist.distributed_c10d._world.pg_map) == pairs
            assert [t.shape for t in idist.all_gather_tensors_with_shapes(torch.ones(r, 2), [(k, 2) for k in range(n)])] == [(k, 2) for k in range(n)]
            assert isinstance(error_of(lambda: idist.all_gather_tensors_with_shapes(torch.ones(1), [(2,)] * n)), ValueError)
            # different calls are an error on all ranks, which goes by
            assert "different" in str(error_of(lambda: idist.all_gather(torch.ones(2 + r))))
            assert idist.all_reduce(1) == n
            idist.finalize()
            os.write(1, f"rank {r} is fine\\n".encode())
            """,
            n=3,
        )
        self.assertEqual(len(re.findall(r"rank \d is fine", output)), 3, output)

    @covers("K-30", "K-31", "I-44", "I-45")
    def test_the_failure_of_one_rank_is_raised_by_all(self):
        output = self.ranks(
            """
            idist.initialize("gloo", timeout=100)
            r = idist.get_rank()
            def fail():
                raise KeyError("bad data")
            for scope in (idist.one_rank_only(rank=1, with_barrier=True)(fail), ):
                error = error_of(scope)
                assert isinstance(error, KeyError) if r == 1 else "rank 1 ended with KeyError: 'bad data'" in str(error), error
            def first():
                with idist.one_rank_first(rank=1):
                    assert r == 1, "the others do not get here"
                    fail()
            error = error_of(first)
            assert isinstance(error, KeyError) if r == 1 else "rank 1 ended with KeyError" in str(error), error
            assert isinstance(error_of(idist.one_rank_only(rank=-1)(fail)), ValueError)
            assert idist.all_reduce(1) == 2
            idist.finalize()
            os.write(1, f"rank {r} is fine\\n".encode())
            """
        )
        self.assertEqual(len(re.findall(r"rank \d is fine", output)), 2, output)

    @covers("K-46", "C-26", "Q-12")
    def test_a_rank_that_leaves_by_sys_exit_has_not_failed(self):
        path = self.program(
            """
            def leaves(local_rank):
                if local_rank == 1:
                    sys.exit()
                return "left the group" in str(error_of(idist.barrier))
            if __name__ == "__main__":
                if len(sys.argv) > 1:
                    with idist.Parallel(backend="gloo") as parallel:
                        assert parallel.run(leaves) == [True]
                else:
                    assert idist.spawn("gloo", leaves, (), nproc_per_node=2, start_method="fork")[1] is None
                fine()
            """
        )
        self.all_fine(self.run_command([sys.executable, path]), 1)
        output = self.run_command([UNISONO, "run", "-n", "2", "--", sys.executable, path, "in a job"])
        self.all_fine(output, 1)  # the other one has left before

    @covers("K-46", "K-48", "B-23")
    def test_an_exception_that_leaves_parallel_is_told(self):
        # The others do not wait for the rank that has gone, and are told why; before that a rank that does not come within the timeout of all calls.
        output = self.ranks(
            """
            def late(local_rank):
                if local_rank == 1:
                    idist.barrier()
                while not os.path.exists("timed out"):
                    time.sleep(0.01)
            def work(local_rank):
                if local_rank == 1:
                    raise ValueError("bad data")
                idist.barrier()
            rank = int(os.environ["RANK"])
            open(f"here {rank}", "w").close()  # both have started: the group has to be formed within the timeout as well
            while not os.path.exists(f"here {1 - rank}"):
                time.sleep(0.01)
            try:
                with idist.Parallel(backend="gloo", timeout=6) as parallel:
                    parallel.run(late)
            except RuntimeError as error:
                os.write(1, f"it has waited: {error}\\n".encode())
                open("timed out", "w").close()
            try:
                with idist.Parallel(backend="gloo") as parallel:
                    limit = dist.distributed_c10d._get_default_store().timeout
                    assert limit == dist.distributed_c10d.default_pg_timeout, limit
                    parallel.run(work)
            except ValueError:
                assert idist.model_name() == "serial"
                os.write(1, b"it was rank 1\\n")
            except RuntimeError as error:
                os.write(1, f"it was told {error}\\n".encode())
            """
        )
        self.assertRegex(output, "it has waited: .*Timed out")
        self.assertIn("it was rank 1", output)
        self.assertRegex(output, "it was told .*rank 1 ended with ValueError: bad data")

    @covers("K-44", "Q-13", "K-16")
    def test_ranks_meet_in_every_way(self):
        # By tcp://, also where a launcher serves a store; a file that another job has left
        port = self.run_command(["python3", "-c", "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"]).strip()
        program = """
            how = dict(init_method=sys.argv[1])
            if len(sys.argv) > 2:
                how |= dict(rank=int(os.environ["RANK"]), world_size=2)
            idist.initialize("unisono", **how)
            assert idist.backend() == "unisono"
            os.write(1, f"sum {idist.all_reduce(idist.get_rank() + 1)}\\n".encode())
            idist.finalize()
        """
        path = self.program(program)
        for more in ([f"tcp://127.0.0.1:{port}"], [f"file://{self.folder}/meeting", "explicit"]):
            launcher = [UNISONO, "run", "-n", "2", "--"]
            output = self.run_command([*launcher, sys.executable, path, *more], TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RUN_ID="a")
            self.assertEqual(output.count("sum 3"), 2, output)

    @covers("A-69", "A-71", "A-73", "A-74", "A-75")
    def test_a_job_begins_again(self):
        # Rank 1 begins again before rank 0, which serves the store, has ended; a plain group of the program comes behind.
        output = self.ranks(
            """
            import time
            for i in range(3):
                if os.environ["RANK"] == "1":
                    open(f"begins {i}", "w").close()
                with idist.Parallel(backend="gloo") as parallel:
                    assert parallel.run(lambda local_rank: idist.all_reduce(1)) == [2]
                    while idist.get_rank() == 0 and i < 2 and not os.path.exists(f"begins {i + 1}"):
                        time.sleep(0.001)
            dist.init_process_group("unisono")
            x = torch.ones(1)
            dist.all_reduce(x)
            os.write(1, f"sum {x.item()}\\n".encode())
            """
        )
        self.assertEqual(output.count("sum 2.0"), 2, output)
        # Rank 0 says what happens, in ignite's words.
        for line in ("Initialized processing group with backend: 'gloo'", "- Run '<function <lambda>.*' in 2 processes", "End of run",
                     "Finalized processing group with backend: 'gloo'"):
            self.assertEqual(len(re.findall(rf"INFO: {line}", output)), 3, output)

    @covers("C-26", "Q-12", "I-14", "I-15", "I-16", "I-17", "I-18", "I-19", "I-20", "A-68", "A-70", "A-72", "B-12")
    def test_spawn_returns_results_and_raises_the_first_failure(self):
        # A fork spares the import of PyTorch.
        output = self.alone(
            """
            import multiprocessing
            def work(local_rank, factor, offset=0):
                assert os.environ["LOCAL_RANK"] == str(local_rank) and dist.get_rank() == idist.get_rank()
                return idist.all_reduce(factor * (idist.get_rank() + 1)) + offset, idist.get_node_rank(), idist.get_nnodes(), local_rank
            def where(local_rank):
                return {name: os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")}, multiprocessing.current_process().daemon
            def fails(local_rank):
                if local_rank == 1:
                    raise ValueError("bad data")
                idist.all_reduce(1)
            def dies(local_rank):
                os.kill(os.getpid(), 9) if local_rank == 1 else idist.all_reduce(1)
            def late(local_rank):
                if local_rank == 0:
                    idist.barrier()
                while True:
                    time.sleep(0.01)
            def node(node_rank, where, results):
                results.put(idist.spawn("gloo", work, (1,), nproc_per_node=2, nnodes=2, node_rank=node_rank, start_method="fork", **where))
            def free_port():
                return dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False).port
            if __name__ == "__main__":
                from torch.multiprocessing import ProcessExitedException, ProcessRaisedException
                fork = dict(nproc_per_node=2, start_method="fork")
                assert idist.spawn("unisono", work, (2,), {"offset": 5}, nproc_per_node=2) == [(11, 0, 1, 0), (11, 0, 1, 1)]
                running = idist.spawn("gloo", work, (3,), join=False, **fork)
                assert len(running.processes) == 2 and running.join()[1][0] == 9
                (there, is_daemon), _ = idist.spawn("gloo", where, (), daemon=True, **fork)
                assert there["MASTER_ADDR"] == "127.0.0.1" and int(there["MASTER_PORT"]) > 1024 and there["WORLD_SIZE"] == "2" and is_daemon, there
                assert idist.spawn("gloo", work, (1,), init_method=f"file://{os.getcwd()}/meeting", **fork)[0][0] == 3
                with idist.Parallel(backend="gloo", **fork) as parallel:
                    assert parallel.run(work, 1, offset=2) == [(5, 0, 1, 0), (5, 0, 1, 1)]
                error = error_of(lambda: idist.spawn("gloo", fails, (), **fork))
                assert isinstance(error, ProcessRaisedException) and error.error_index == 1 and "ValueError: bad data" in str(error), error
                error = error_of(lambda: idist.spawn("gloo", dies, (), **fork))
                assert isinstance(error, ProcessExitedException) and error.signal_name == "SIGKILL", error
                sys.modules["unisono._children"].GRACE = 0  # for rank 1, which never ends by itself
                error = error_of(lambda: idist.spawn("gloo", late, (), timeout=6, **fork))
                assert "Timed out" in str(error), error
                assert isinstance(error_of(lambda: idist.spawn("gloo", work, (1,), init_method="file:///x", master_port=1)), ValueError)
                for where in (dict(init_method=f"tcp://127.0.0.1:{free_port()}"), dict(master_addr="127.0.0.1", master_port=free_port())):
                    results = multiprocessing.Queue()
                    nodes = [multiprocessing.Process(target=node, args=(i, where, results)) for i in range(2)]
                    [p.start() for p in nodes]
                    told = [results.get(timeout=100) for _ in nodes]
                    [p.join() for p in nodes]
                    assert sorted(told) == [[(10, 0, 2, 0), (10, 0, 2, 1)], [(10, 1, 2, 0), (10, 1, 2, 1)]], told
                print("fine")
            """,
            timeout=400,
        )
        self.assertIn("fine\n", output)
        for line in ("Initialized distributed launcher with backend: 'gloo'", r"- Parameters to spawn processes: \n\tnproc_per_node: 2\n",
                     "Spawn function '<function work at .*>' in 2 processes", "End of run"):
            self.assertEqual(len(re.findall(rf"INFO: {line}", output)), 1, output)

    @unittest.skipIf(importlib.util.find_spec("ignite") is None, "the package pytorch-ignite is missing")
    def test_the_original_trains_together_in_a_group_of_unisono(self):
        # It trains with all ranks, whether it was imported before the group was formed or is imported behind; and ours is imported in its place.
        output = self.ranks(
            """
            warnings.simplefilter("ignore")
            def trains_together(theirs):
                theirs.sync(temporary=True)
                r = dist.get_rank()
                torch.manual_seed(r)
                model = theirs.auto_model(torch.nn.Linear(2, 1))
                assert type(model) is torch.nn.parallel.DistributedDataParallel and theirs.get_world_size() == 2, theirs.backend()
                optimizer = theirs.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))
                model(torch.randn(4, 2)).square().mean().backward()
                optimizer.step()
                weights = idist.all_gather([p.tolist() for p in model.parameters()])
                assert weights[0] == weights[1] and theirs.all_reduce(r + 1) == 3, weights
            def forget():
                for name in [name for name in sys.modules if name.split(".")[0] == "ignite"]:
                    del sys.modules[name]
            import ignite.distributed as early
            idist.initialize("gloo", timeout=100)
            trains_together(early)
            idist.finalize()
            forget()
            dist.init_process_group("unisono")
            import ignite.distributed as late
            assert early is not late and late is not idist
            trains_together(late)
            forget()
            idist.install()
            import ignite.distributed as installed
            from ignite.distributed.utils import all_reduce
            from ignite.metrics import metric
            assert (installed, metric.idist, all_reduce, sys.modules["ignite"].distributed) == (idist, idist, idist.all_reduce, idist)
            trains_together(installed)
            os.write(1, f"rank {dist.get_rank()} is fine\\n".encode())
            dist.destroy_process_group()
            """
        )
        self.assertEqual(len(re.findall(r"rank \d is fine", output)), 2, output)

    @unittest.skipIf(importlib.util.find_spec("ignite") is None, "the package pytorch-ignite is missing")
    def test_engine_and_metrics_of_ignite_run_on_it(self):
        # ignite's metrics call ignite.distributed, which finds the group that unisono.ignite has formed.
        output = self.ranks(
            """
            warnings.simplefilter("ignore")
            idist.initialize("gloo", timeout=100)
            from ignite.engine import Engine
            from ignite.metrics import Accuracy, Loss
            r = idist.get_rank()
            model = idist.auto_model(torch.nn.Linear(3, 2))
            evaluator = Engine(lambda engine, batch: (model(batch[0]).detach(), batch[1]))
            Accuracy().attach(evaluator, "accuracy")
            Loss(torch.nn.functional.cross_entropy).attach(evaluator, "loss")
            generator = torch.Generator().manual_seed(0)
            data = torch.utils.data.TensorDataset(torch.rand(40, 3, generator=generator), torch.randint(2, (40,), generator=generator))
            metrics = evaluator.run(idist.auto_dataloader(data, batch_size=8, shuffle=False)).metrics
            whole = model(data.tensors[0])
            accuracy = (whole.argmax(1) == data.tensors[1]).float().mean().item()
            loss = torch.nn.functional.cross_entropy(whole, data.tensors[1]).item()
            assert abs(metrics["accuracy"] - accuracy) < 1e-6 and abs(metrics["loss"] - loss) < 1e-5, metrics
            idist.finalize()
            os.write(1, f"rank {r} is fine\\n".encode())
            """
        )
        self.assertEqual(len(re.findall(r"rank \d is fine", output)), 2, output)


if __name__ == "__main__":
    os.environ.pop("RANK", None)
    unittest.main(verbosity=2)
