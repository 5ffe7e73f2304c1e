"""How processes end, and what the other ranks read of it: whoever fails is named with its reason, and whoever ends well disturbs nobody."""

import re
import signal
import sys
import textwrap
import unittest

import jobs
from covers import covers
from jobs import UNISONO, WORKS
from many_runs import WarmPython

# Rank 1 ends in some way, and rank 0 says what it reads of it.
TOLD = """
if rank == 1:
{}
error = error_of(lambda: dist.all_reduce(torch.ones(2)))
assert isinstance(error, dist.DistBackendError), repr(error)
os.write(1, f"reads: {{error}}\\n".encode())
"""


class Endings(jobs.JobTest):
    @classmethod
    def setUpClass(cls):
        cls.warm = WarmPython()
        cls.python = cls.warm.command

    @classmethod
    def tearDownClass(cls):
        cls.warm.close()

    def what_is_read(self, ending, code):
        """What rank 0 reads where rank 1 ends with these lines and this code."""
        with self.subTest(ending):
            self.folder = self.folder / "again"
            self.folder.mkdir()
            self.outputs = outputs = self.ranks(self.BY_FILE + TOLD.format(textwrap.indent(textwrap.dedent(ending), "    ")), expect=[0, code])
            text = re.search("reads: (.*)", outputs[0])[1]
            for word in ("shrink_group", "finalize", "initialize"):  # which a program in Python does not have
                self.assertNotIn(word, text)
            return text

    @covers("TS-45")
    def test_an_exception_is_named(self):
        told = self.what_is_read('raise ValueError("bad data")', 1)
        self.assertRegex(self.outputs[1], r"\[rank1\]: *ValueError: bad data")
        self.assertRegex(told, r"all_reduce #1 on group world, rank 0, at program\.py:\d+: rank 1 ended with ValueError: bad data \[culprit: rank 1")
        self.assertIn("(the group is over; destroy_process_group and init_process_group make another one of the survivors)", told)
        self.assertIn("rank 1 ended with KeyError: 'x'", self.what_is_read('{}["x"]', 1))
        self.assertIn("rank 1 ended with RuntimeError: first line [", self.what_is_read('raise RuntimeError("\\n first line\\nsecond line")', 1))
        self.assertIn("rank 1 ended with AssertionError [", self.what_is_read("assert False", 1))
        self.assertIn("rank 1 ended with ValueError: " + "x" * 299 + "… [", self.what_is_read('raise ValueError("x" * 1000)', 1))
        read = self.what_is_read("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", 128 + signal.SIGINT)
        self.assertIn("rank 1 was interrupted (KeyboardInterrupt)", read)
        replaced = self.what_is_read('sys.excepthook = lambda *_: None\nraise ValueError("bad data")', 1)
        self.assertIn("rank 1 ended with ValueError: bad data", replaced)

    def test_an_exit_code_is_named(self):
        self.assertIn("rank 1 ended with sys.exit(3) [", self.what_is_read("sys.exit(3)", 3))
        self.assertIn("rank 1 ended with sys.exit('no data') [", self.what_is_read('sys.exit("no data")', 1))
        handled = """
        try:
            raise ValueError("bad data")
        except ValueError as error:
            print(error)
            sys.exit(1)
        """
        self.assertIn("rank 1 ended with ValueError: bad data", self.what_is_read(handled, 1))
        for end in ("os._exit(4)", "exit(4)", "quit(4)", "raise SystemExit(4)"):
            self.assertIn("exited with code 4 before destroy_process_group", self.what_is_read(end, 4))

    def test_a_rank_that_ends_well_has_left(self):
        self.assertIn("exited with code 0 before destroy_process_group", self.what_is_read("sys.exit()", 0))
        left = "rank 1 has left the group (destroy_process_group) and will not come"
        self.assertIn(left, self.what_is_read("dist.destroy_process_group()\nsys.exit(0)", 0))
        # Errors that were somebody's and are over.
        left = "exited with code 0 before destroy_process_group"
        self.assertIn(left, self.what_is_read('import code\ncode.InteractiveInterpreter().runsource("1/0")\nassert sys.last_value\nsys.exit(0)', 0))
        caught = """
        try:
            sys.exit(7)
        except SystemExit:
            sys.exit(0)
        """
        self.assertIn(left, self.what_is_read(caught, 0))

    def test_an_exception_is_told_before_other_threads_are_waited_for(self):
        told = self.what_is_read(
            """
            import threading
            receiving = threading.Event()
            def receive():
                receiving.set()
                error = error_of(lambda: dist.recv(torch.ones(2), 0))
                assert isinstance(error, dist.DistBackendError), repr(error)
            threading.Thread(target=receive).start()
            receiving.wait()
            raise ValueError("bad data")
            """, 1)
        self.assertIn("rank 1 ended with ValueError: bad data", told)

    def test_a_process_of_multiprocessing_tells_its_exception(self):
        for method, start in (("fork", "Process"), ("spawn", "mp.spawn")):
            with self.subTest(start):
                path = self.program(f"""
                import multiprocessing
                import torch.multiprocessing
                def main(rank, meeting):
                    begin(init_method=meeting, rank=rank, world_size=2)
                    if rank == 1:
                        raise ValueError("bad data")
                    error = error_of(lambda: dist.all_reduce(torch.ones(2)))
                    open(sys.argv[2], "w").write(str(error))
                if __name__ == "__main__":
                    if "{method}" == "spawn":
                        context = torch.multiprocessing.start_processes(main, (sys.argv[1],), nprocs=2, join=False, start_method="spawn")
                        processes = context.processes
                    else:
                        context = multiprocessing.get_context("fork")
                        processes = [context.Process(target=main, args=(rank, sys.argv[1])) for rank in range(2)]
                        for process in processes:
                            process.start()
                    for process in processes:
                        process.join()
                    assert [process.exitcode for process in processes] == [0, 1]
                """)
                told = self.folder / f"told-{method}"
                self.run_command([sys.executable, path, f"file://{self.folder}/meeting-{method}", str(told)])
                self.assertIn("rank 1 ended with ValueError: bad data", told.read_text())

    def test_the_launcher_names_who_was_first(self):
        if not UNISONO:
            self.skipTest("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")
        # Rank 1 is long dying, and rank 0 ends of it before.
        path = self.program("""
        rank, size = begin()
        if rank == 1:
            other = int(dist.distributed_c10d._get_default_store().get("pid"))
            class Late:
                def __del__(self):
                    while open(f"/proc/{other}/stat").read().rpartition(")")[2].split()[0] != "Z":  # the launcher keeps it
                        time.sleep(0.01)
            late = Late()  # ends with the modules, after all that is registered for the end of the program
            raise ValueError("bad data")
        dist.distributed_c10d._get_default_store().set("pid", str(os.getpid()))
        dist.all_reduce(torch.ones(2))
        """)
        output = self.run_command([UNISONO, "run", "-n", "2", "--grace", "60", "--", sys.executable, path], expect=1)
        self.assertRegex(output, r"(?s)rank 1 ended with ValueError: bad data.*first cause: rank 1 ")

    def test_the_survivors_form_another_group(self):
        outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
        if rank == 1:
            raise ValueError("bad data")
        error = error_of(lambda: dist.all_reduce(torch.ones(2)))
        assert "destroy_process_group and init_process_group make another one of the survivors" in str(error), error
        dist.destroy_process_group()
        rank, size = begin(init_method=os.environ["MEETING"] + "-of-survivors", rank=rank // 2, world_size=2)
        """) + WORKS, n=3, expect=[0, 1, 0])
        self.fine("".join(outputs), 2)

    # The store

    def test_leaving_writes_nothing_to_the_store(self):
        outputs = self.ranks("""
        rank, size = int(os.environ["RANK"]), 2
        store = dist.FileStore(os.environ["MEETING"][7:], size)
        def content():
            return open(os.environ["MEETING"][7:], "rb").read()
        begin(store=store, rank=rank, world_size=size)
        dist.barrier()
        before = content()
        dist.barrier()
        pair = dist.new_group([0, 1])
        dist.barrier(group=pair)
        after = content()
        assert after.startswith(before) and len(after) > len(before)
        dist.barrier()
        dist.destroy_process_group()
        if rank == 1:
            assert content() == after, content()[len(after):]
            say_fine(rank, size)
            open(sys.argv[0] + ".done", "w").close()
        while not os.path.exists(sys.argv[0] + ".done"):
            time.sleep(0.01)
        """)
        self.assertIn("rank 1 of 2 is fine", outputs[1])

    def test_one_store_serves_several_groups_in_turn(self):
        outputs = self.ranks("""
        rank, size = int(os.environ["RANK"]), 3
        store = dist.FileStore(os.environ["MEETING"][7:], size)
        for round in range(4):
            begin(store=store, rank=rank, world_size=size)
            x = torch.tensor([float(rank + 1)])
            dist.all_reduce(x)
            assert x.item() == 6
            dist.destroy_process_group()
        say_fine(rank, size)
        """, n=3)
        self.fine("".join(outputs), 3)

    def test_the_one_that_serves_the_store_waits_for_the_readers(self):
        # Rank 1 is slow to read, each time: rank 0, with the store, would be gone by then.
        outputs = self.ranks(f"""
        rank, size = int(os.environ["RANK"]), 2
        store = dist.TCPStore("127.0.0.1", {self.held_port()}, size, rank == 0)
        if rank == 1:
            class Slow(dist.Store):
                def __init__(self, inner):
                    super().__init__()
                    self.inner = inner
                def slowly(self):
                    time.sleep(0.5)
                    return self.inner
                def set(self, key, value): self.inner.set(key, value)
                def get(self, key): return self.slowly().get(key)
                def add(self, key, value): return self.inner.add(key, value)
                def check(self, keys): return self.slowly().check(keys)
                def compare_set(self, key, expected, desired): return self.inner.compare_set(key, expected, desired)
                def wait(self, keys, timeout=datetime.timedelta(seconds=60)): return self.slowly().wait(keys, timeout)
                def delete_key(self, key): return self.inner.delete_key(key)
                def num_keys(self): return self.inner.num_keys()
            store = Slow(store)
        begin(store=store, rank=rank, world_size=size)
        say_fine(rank, size)
        if rank == 0:
            os._exit(0)
        """)
        self.fine("".join(outputs), 2)

    def test_a_monitored_barrier_is_over_when_all_have_read_so(self):
        outputs = self.ranks(f"""
        rank, size = int(os.environ["RANK"]), 4
        store = dist.TCPStore("127.0.0.1", {self.held_port()}, size, rank == 0)
        begin(store=store, rank=rank, world_size=size)
        dist.monitored_barrier()
        say_fine(rank, size)
        if rank == 0:
            os._exit(0)
        """, n=4)
        self.fine("".join(outputs), 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
