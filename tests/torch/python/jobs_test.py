"""Jobs that are started in all the ways there are, and that go wrong in all the ways there are: each test starts processes of its own."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import jobs
from jobs import UNISONO, WORKS


class Jobs(jobs.JobTest):
    # Ways to start

    def test_a_job_of_torchrun_works(self):
        path = self.program("rank, size = begin()" + WORKS + "dist.destroy_process_group()")
        self.fine(self.run_command([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", path]), 2)

    def test_a_job_of_unisono_run_works(self):
        if not UNISONO:
            self.skipTest("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")
        path = self.program("rank, size = begin()" + WORKS + "dist.destroy_process_group()")
        self.fine(self.run_command([UNISONO, "run", "-n", "3", "--", sys.executable, path]), 3)

    def test_a_job_that_meets_by_tcp_works(self):
        path = self.program(f'rank, size = begin(init_method="tcp://127.0.0.1:{self.held_port()}", rank=int(sys.argv[1]), world_size=2)' + WORKS)
        other = subprocess.Popen([sys.executable, path, "1"], env=self.plain_environment(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(other.kill)
        first = self.run_command([sys.executable, path, "0"])
        self.fine(first + other.communicate(timeout=self.longest)[0], 2)
        self.assertEqual(other.returncode, 0)

    def test_a_job_of_mp_spawn_works(self):
        path = self.program("""
        import torch.multiprocessing as mp
        def main(rank, meeting):
            begin(init_method=meeting, rank=rank, world_size=2)
            size = 2
            x = torch.tensor([float(rank + 1)])
            dist.all_reduce(x)
            assert x.item() == 3
            say_fine(rank, size)
            dist.destroy_process_group()
        if __name__ == "__main__":
            mp.spawn(main, (sys.argv[1],), nprocs=2)
        """)
        self.fine(self.run_command([sys.executable, path, f"file://{self.folder}/meeting"]), 2)

    def test_the_default_group_is_formed_again(self):
        outputs = self.ranks("""
        for round in range(3):
            rank, size = begin(init_method=os.environ["MEETING"] + str(round), rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
            x = torch.tensor([float(rank + 1)])
            dist.all_reduce(x)
            assert x.item() == size * (size + 1) / 2, x
            dist.destroy_process_group()
        say_fine(rank, size)
        """)
        self.fine("".join(outputs), 2)

    def test_groups_without_a_common_rank_may_have_one_name(self):
        outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
        mine = dist.new_group([rank % 2, rank % 2 + 2])  # the first group that this rank makes, whatever the others make
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=mine)
        assert x.item() == 2 * (rank % 2) + 2, x
        alone = dist.new_group([rank])
        dist.all_reduce(x, group=alone)
        assert x.item() == 2 * (rank % 2) + 2, x
        """) + WORKS, n=4)
        self.fine("".join(outputs), 4)

    def test_a_program_may_exit_without_destroying_the_group(self):
        outputs = self.ranks(self.BY_FILE + WORKS + "work = dist.all_reduce(torch.ones(3), async_op=True)\nwork.wait()\n")
        self.fine("".join(outputs), 2)

    def test_two_backends_serve_two_devices(self):
        outputs = self.ranks("""
        dist.init_process_group("cpu:unisono,cuda:gloo", init_method=os.environ["MEETING"], rank=int(os.environ["RANK"]), world_size=2)
        rank, size = dist.get_rank(), 2
        assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "unisono"
        x = torch.tensor([float(rank + 1)])
        dist.all_reduce(x)
        assert x.item() == 3, x
        say_fine(rank, size)
        """)
        self.fine("".join(outputs), 2)

    # Ways to fail

    def test_a_killed_rank_is_named(self):
        outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        error = error_of(lambda: dist.all_reduce(torch.ones(4)))
        assert isinstance(error, dist.DistBackendError), repr(error)
        assert "rank 1" in str(error) and "SIGKILL" in str(error), error
        asynchronous = error_of(lambda: dist.all_reduce(torch.ones(4), async_op=True).wait())
        assert "rank 1" in str(asynchronous), asynchronous
        say_fine(rank, size)
        """), n=3, expect=[0, -signal.SIGKILL, 0])
        self.assertIn("rank 0 of 3 is fine", outputs[0])

    def test_shapes_are_compared_where_that_is_asked_for(self):
        program = self.BY_FILE + textwrap.dedent("""
        shape = (3, 2) if rank == 2 else (2, 3)
        x = torch.ones(shape)
        if os.environ.get("UNISONO_COMPARE"):
            error = error_of(lambda: dist.all_reduce(x))
            assert isinstance(error, dist.DistBackendError), repr(error)
            assert "rank 2 all_reduce" in str(error) and "[3, 2]" in str(error) and "ranks 0, 1 all_reduce" in str(error), error
            assert "[culprit: rank 2" in str(error), error
            assert ("this rank another than most" in str(error)) == (rank == 2), error
            assert x.equal(torch.ones(shape)), x
            parts = [torch.empty(shape) for _ in range(size)]
            error = error_of(lambda: dist.all_gather(parts, torch.ones(shape)))
            assert "[3, 2]" in str(error), error
            x = torch.ones(2, 3)
        dist.all_reduce(x)
        assert x.sum() == 6 * size, x
        say_fine(rank, size)
        """)
        self.fine("".join(self.ranks(program, n=3)), 3)
        self.addCleanup(os.environ.pop, "UNISONO_COMPARE")
        os.environ["UNISONO_COMPARE"] = "shapes"
        self.folder = Path(tempfile.mkdtemp(dir=self.folder))  # another place to meet
        self.fine("".join(self.ranks(program, n=3)), 3)

    def test_the_rank_that_differs_is_the_first_cause(self):
        if not UNISONO:
            self.skipTest("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")
        path = self.program("rank, size = begin()\ndist.all_reduce(torch.ones(3 if rank == 1 else 2))\n")
        output = self.run_command([UNISONO, "run", "-n", "3", "--", sys.executable, path], expect=1)
        self.assertIn("first cause: rank 1 ", output)

    def test_a_timeout_names_who_is_missing(self):
        outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
        dist.barrier()  # a group has to be formed within its timeout as well: that begins when all have started
        short = dist.new_group(timeout=datetime.timedelta(seconds=5))
        if rank == 0:
            error = error_of(lambda: dist.all_reduce(torch.ones(4), group=short))
            assert isinstance(error, dist.DistBackendError), repr(error)
            assert "Timed out" in str(error) and re.search(r"rank 1\\b", str(error)), error
            open(sys.argv[0] + ".done", "w").close()
        while not os.path.exists(sys.argv[0] + ".done"):
            time.sleep(0.05)
        # PyTorch names this group by its ranks and by how many groups each of them has made: the names differ.
        if rank == 0:
            dist.new_group([0], use_local_synchronization=True)
        error = error_of(lambda: dist.new_group([0, 1], use_local_synchronization=True, timeout=datetime.timedelta(seconds=2)))
        assert "have all members called new_group with these ranks, each after as many other groups?" in str(error), error
        say_fine(rank, size)
        """))
        self.fine("".join(outputs), 2)

    def test_a_wait_that_takes_too_long_leaves_the_group_as_it_is(self):
        outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
        x = torch.full((2,), rank + 1.0)
        if rank == 0:
            work = dist.all_reduce(x, async_op=True)
            error = error_of(lambda: work.wait(datetime.timedelta(seconds=0.2)))
            assert "Timed out" in str(error), error
            open(sys.argv[0] + ".done", "w").close()
        else:
            while not os.path.exists(sys.argv[0] + ".done"):
                time.sleep(0.05)
            work = dist.all_reduce(x, async_op=True)
        work.wait()
        assert x.tolist() == [3, 3], x
        say_fine(rank, size)
        """))
        self.fine("".join(outputs), 2)

    def test_calls_that_differ_move_nothing(self):
        outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
        x = torch.ones(4 + rank)
        error = error_of(lambda: dist.all_reduce(x))
        assert isinstance(error, dist.DistBackendError) and "4" in str(error) and "5" in str(error), error
        assert x.eq(1).all()
        error = error_of(lambda: dist.all_reduce(torch.ones(4, dtype=torch.float32 if rank else torch.float64)))
        assert "float64" in str(error), error
        error = error_of(lambda: dist.broadcast(torch.ones(2), 7))
        assert isinstance(error, (ValueError, RuntimeError)), error
        error = error_of(lambda: dist.all_reduce(torch.ones(2, dtype=torch.float8_e4m3fn)))
        assert isinstance(error, ValueError) and "Float8_e4m3fn" in str(error), repr(error)
        """) + WORKS)
        self.fine("".join(outputs), 2)

    def test_monitored_barrier_names_who_is_missing(self):
        outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
        short = datetime.timedelta(seconds=1)
        if rank == 0:
            error = error_of(lambda: dist.monitored_barrier(timeout=short, wait_all_ranks=True))
            assert "Ranks 1, 2 failed to pass monitoredBarrier" in str(error), error
        """) + WORKS, n=3)
        self.fine("".join(outputs), 3)

    def test_abort_ends_the_calls_of_every_rank(self):
        outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
        dist.barrier()
        if rank == 1:
            dist.group.WORLD._get_backend(torch.device("cpu")).abort()
        error = error_of(lambda: dist.all_reduce(torch.ones(4)))
        assert isinstance(error, dist.DistBackendError) and "rank 1" in str(error), repr(error)
        say_fine(rank, size)
        """))
        self.fine("".join(outputs), 2)

    def test_a_store_that_nobody_comes_to_is_a_timeout(self):
        path = self.program("""
        error = error_of(lambda: begin(init_method=os.environ["MEETING"], rank=0, world_size=2, timeout=datetime.timedelta(seconds=2)))
        assert isinstance(error, (dist.DistBackendError, dist.DistStoreError)), repr(error)
        print(error)
        """)
        self.assertRegex(self.run_command([sys.executable, path], MEETING=f"file://{self.folder}/meeting"), "1")

    def test_two_versions_of_pytorch_in_one_job_are_refused(self):
        outputs = self.ranks("""
        from unisono.torch import _extension
        _extension.load()  # the one for this PyTorch, whatever it says of itself from here on
        versions = [".".join(torch.__version__.split(".")[:2]), "2.99"]
        if os.environ["RANK"] == "1":
            torch.__version__ = "2.99.0"
        error = error_of(lambda: begin(init_method=os.environ["MEETING"], rank=int(os.environ["RANK"]), world_size=2))
        for text in ("different versions", "rank 0", "rank 1", *(f"with PyTorch {version}" for version in versions)):
            assert text in str(error), (text, str(error))
        print("told")
        """)
        self.assertEqual(["told" in output for output in outputs], [True, True], outputs)

    def test_a_coalesced_call_that_is_half_wrong_leaves_the_group_usable(self):
        outputs = self.ranks(self.BY_FILE + """
pieces = [torch.full((100000,), float(rank + 1)), torch.ones(4, dtype=torch.bool)]
from torch.distributed import AllreduceCoalescedOptions
options = AllreduceCoalescedOptions()
error = error_of(lambda: dist.group.WORLD._get_backend(torch.device("cpu")).allreduce_coalesced([*pieces, torch.ones(3, device="meta")], options).wait())
assert isinstance(error, (ValueError, RuntimeError)), repr(error)
del pieces
rank, size = dist.get_rank(), dist.get_world_size()
""" + WORKS)
        self.fine("".join(outputs), 2)

if __name__ == "__main__":
    unittest.main(verbosity=2)
