"""unisono.ignite in jobs: what the original gets wrong, failures, ways to meet, and programs of pytorch-ignite around it. Starts its own jobs."""

import importlib.util
import os
import re
import unittest

from covers import covers
from jobs import UNISONO, JobTest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("unisono.torch") is None:
    print("skipped: the package torch or unisono-torch is missing")
    raise SystemExit(0)

BEGIN = """
import os, sys, warnings
from pathlib import Path
import torch
import torch.distributed as dist
import unisono.ignite as idist
torch.set_num_threads(1)
def error_of(call):
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("it went well")
"""


class IgniteJobs(JobTest):
    def program(self, text, name="program.py"):
        import textwrap

        path = self.folder / name
        path.write_text(BEGIN + textwrap.dedent(text))
        return str(path)

    @covers("K-21", "K-22", "K-24", "K-25", "K-28", "K-29", "K-38", "K-75", "K-78", "C-05", "Q-04", "Q-26")
    def test_values(self):
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
            assert isinstance(error_of(lambda: idist.all_reduce(1 << 63)), ValueError)
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
                assert idist.all_reduce(r, group=[1, 2]) == 3 and idist.all_reduce(torch.tensor(r), group=[2, 1]).item() == 3
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
    def test_one_rank_fails(self):
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

    @covers("K-46")
    def test_an_exception_leaves_parallel(self):
        # The others do not wait for the rank that has gone, and are told why
        output = self.ranks(
            """
            def work(local_rank):
                if local_rank == 1:
                    raise ValueError("bad data")
                idist.barrier()
            try:
                with idist.Parallel(backend="gloo") as parallel:
                    parallel.run(work)
            except ValueError:
                assert idist.model_name() == "serial"
                os.write(1, b"it was rank 1\\n")
            except RuntimeError as error:
                os.write(1, f"it was told {error}\\n".encode())
            """
        )
        self.assertIn("it was rank 1", output)
        self.assertRegex(output, "it was told .*rank 1 ended with ValueError: bad data")

    @covers("K-44", "Q-13", "K-16")
    def test_ways_to_meet(self):
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
        import sys

        for more in ([f"tcp://127.0.0.1:{port}"], [f"file://{self.folder}/meeting", "explicit"]):
            launcher = [UNISONO, "run", "-n", "2", "--"]
            output = self.run_command([*launcher, sys.executable, path, *more], TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RUN_ID="a")
            self.assertEqual(output.count("sum 3"), 2, output)

    @covers("C-26", "K-77", "Q-12", "I-15", "I-16", "I-17", "I-18", "I-19", "I-20")
    def test_again(self):
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

    def test_spawn(self):
        # Results, two emulated nodes, who failed first
        output = self.alone(
            """
            import multiprocessing
            def work(local_rank, factor):
                assert os.environ["LOCAL_RANK"] == str(local_rank) and int(os.environ["MASTER_PORT"]) > 1024
                return idist.all_reduce(factor * (idist.get_rank() + 1)), idist.get_node_rank(), idist.get_nnodes(), local_rank
            def fails(local_rank):
                if local_rank == 1:
                    raise ValueError("bad data")
                idist.all_reduce(1)
            def dies(local_rank):
                if local_rank == 1:
                    os.kill(os.getpid(), 9)
                idist.all_reduce(1)
            def node(node_rank, port, results):
                results.put(idist.spawn("gloo", work, (1,), nproc_per_node=2, nnodes=2, node_rank=node_rank, master_addr="127.0.0.1", master_port=port))
            if __name__ == "__main__":
                from torch.multiprocessing import ProcessExitedException, ProcessRaisedException
                assert idist.spawn("unisono", work, (2,), nproc_per_node=2) == [(6, 0, 1, 0), (6, 0, 1, 1)]
                running = idist.spawn("gloo", work, (3,), nproc_per_node=2, join=False, start_method="fork")
                assert len(running.processes) == 2 and running.join()[1][0] == 9
                error = error_of(lambda: idist.spawn("gloo", fails, (), nproc_per_node=2))
                assert isinstance(error, ProcessRaisedException) and error.error_index == 1 and "ValueError: bad data" in str(error), error
                error = error_of(lambda: idist.spawn("gloo", dies, (), nproc_per_node=2))
                assert isinstance(error, ProcessExitedException) and error.signal_name == "SIGKILL", error
                assert isinstance(error_of(lambda: idist.spawn("gloo", work, (1,), init_method="file:///x", master_port=1)), ValueError)
                results, port = multiprocessing.Queue(), dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False).port
                nodes = [multiprocessing.Process(target=node, args=(i, port, results)) for i in range(2)]
                [p.start() for p in nodes]
                told = [results.get(timeout=100) for _ in nodes]
                [p.join() for p in nodes]
                assert sorted(told) == [[(10, 0, 2, 0), (10, 0, 2, 1)], [(10, 1, 2, 0), (10, 1, 2, 1)]], told
                print("fine")
            """,
            timeout=400,
        )
        self.assertTrue(output.rstrip().endswith("fine"), output)

    @unittest.skipIf(importlib.util.find_spec("ignite") is None, "the package pytorch-ignite is missing")
    def test_ignites_own_engine_and_metrics(self):
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
