"""Where the ranks of torch.distributed meet: stores of the launcher, of the adapters, and of the program itself."""

import sys
import unittest

import jobs
from jobs import UNISONO, WORKS

# listening(): the addresses at which this process, and the one that has started it, listen on TCP, as /proc writes them.
LISTENING = """
def listening():
    inodes = set()
    for process in (os.getpid(), os.getppid()):
        for descriptor in os.listdir(f"/proc/{process}/fd"):
            try:
                inodes.add(os.readlink(f"/proc/{process}/fd/{descriptor}").removeprefix("socket:[").removesuffix("]"))
            except FileNotFoundError:
                pass
    lines = [line.split() for table in ("tcp", "tcp6") for line in open(f"/proc/net/{table}").readlines()[1:]]
    return sorted(words[1].partition(":")[0] for words in lines if words[3] == "0A" and words[9] in inodes)
LOOPBACK = "0100007F"
"""
SUM = """
x = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(x)
assert x.item() == 3, x
"""
# A store as those of torch.distributed.elastic: it has what gloo needs, and no more.
OWN_STORE = """
class Own(dist.Store):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def set(self, key, value): self.inner.set(key, value)
    def get(self, key): return self.inner.get(key)
    def add(self, key, amount): return self.inner.add(key, amount)
    def wait(self, keys, timeout=None): self.inner.wait(keys, timeout or datetime.timedelta(seconds=60))
    def check(self, keys): return self.inner.check(keys)
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
own = Own(dist.FileStore(os.environ["MEETING"].removeprefix("file://"), size))
"""


@unittest.skipUnless(UNISONO, "the command unisono is not on PATH, and UNISONO_COMMAND does not name it")
class Launched(jobs.JobTest):
    def run_ranks(self, text, n=2, **environment):
        return self.run_command([UNISONO, "run", "-n", str(n), "--", sys.executable, self.program(text)], **environment)

    def test_nobody_listens_under_unisono_run(self):
        program = LISTENING + """
for _ in range(2):  # also for a group that follows another one
    dist.init_process_group(BACKEND)
    assert listening() == [], listening()
    assert unisono.torch.is_unisono()
    parts = [dist.new_group([0]), dist.new_group([0, 1])]
""" + "    ".join(SUM.splitlines(keepends=True)) + """
    dist.destroy_process_group()
say_fine(int(os.environ["RANK"]), 2)
"""
        self.fine(self.run_ranks('BACKEND = "unisono"\n' + program), 2)
        self.fine(self.run_ranks('BACKEND = "gloo"\n' + program, UNISONO_STAND_IN="gloo"), 2)

    def test_rank_0_listens_on_loopback_alone_under_a_pytorch_that_cannot_take_the_launchers_store(self):
        self.fine(self.run_ranks("del dist.ProcessGroup.get_group_store" + LISTENING + """
for _ in range(2):
    rank, size = begin()
    assert listening() == [LOOPBACK] * (rank == 0), listening()
""" + "    ".join(SUM.splitlines(keepends=True)) + """
    dist.destroy_process_group()
say_fine(rank, size)
"""), 2)

    def test_encryption_takes_a_key(self):
        output = self.run_command([UNISONO, "run", "-n", "2", "--", sys.executable, self.program("begin()")], expect=1, UNISONO_TLS="required")
        self.assertIn("UNISONO_TLS=required takes the job's secret", " ".join(output.split()))


class Adapters(jobs.JobTest):
    def test_their_stores_listen_on_loopback_alone(self):
        ways = {
            "ignite": "import unisono.ignite as idist; idist.initialize('gloo')",
            "horovod": "import unisono.horovod.torch as hvd; hvd.init()",
            "mmengine": "from unisono.mmengine import init_dist; init_dist('pytorch', backend='gloo')",
        }
        for name, begins in ways.items():
            with self.subTest(name):
                port = str(self.held_port())
                outputs = self.ranks(LISTENING + f"os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='{port}', LOCAL_RANK=os.environ['RANK'])\n" + begins + SUM + """
rank = dist.get_rank()
assert listening() == [LOOPBACK] * (rank == 0), listening()
dist.barrier()
say_fine(rank, 2)
""")
                self.fine("".join(outputs), 2)

    def test_their_spawned_ranks_meet_on_loopback_alone(self):
        program = LISTENING + "from unisono import virtex\nimport unisono.ignite as idist\ndef main(*args):\n" + "    ".join(SUM.splitlines(keepends=True)) + """
    assert listening() == [LOOPBACK], listening()
    dist.barrier()
    say_fine(dist.get_rank(), 2)
if __name__ == "__main__":
    virtex.launch(main, num_gpus_per_machine=2)
    idist.spawn("gloo", main, args=(), nproc_per_node=2)
"""
        self.assertEqual(self.run_command([sys.executable, self.program(program)]).count(" of 2 is fine"), 4)


class Own(jobs.JobTest):
    def test_a_store_written_in_python_needs_what_gloo_needs(self):
        for stand_in in ("", "gloo"):
            outputs = self.ranks(f'os.environ["UNISONO_STAND_IN"] = "{stand_in}"\nunisono.torch.register()\nos.environ["MEETING"] += "{stand_in}"\n'
                                 + OWN_STORE + f'dist.init_process_group("{stand_in or "unisono"}", store=own, rank=rank, world_size=size)\n'
                                 + "assert unisono.torch.is_unisono()\n" + WORKS + """
part = dist.new_group([1, 0])
dist.barrier(group=part)
dist.monitored_barrier()
dist.monitored_barrier()
""")
            self.fine("".join(outputs), 2)

    def test_the_method_that_a_store_lacks_is_named(self):
        for method in ("check", "add", "wait", "set"):
            outputs = self.ranks(f'os.environ["MEETING"] += "{method}"\n' + OWN_STORE + f"""
del Own.{method}
error = error_of(lambda: dist.init_process_group("unisono", store=own, rank=rank, world_size=size))
assert "the given store has no method {method}" in str(error) and "set, get, add, wait and check" in str(error), error
say_fine(rank, size)
""")
            self.fine("".join(outputs), 2)

    def test_a_rank_that_comes_late_to_its_first_call_has_made_none(self):
        outputs = self.ranks("""
        rank, here = int(os.environ["RANK"]), os.environ["MEETING"].removeprefix("file://") + ".here."
        open(here + str(rank), "w").close()  # loading PyTorch may take longer than the timeout
        while not os.path.exists(here + str(1 - rank)):
            time.sleep(0.01)
        rank, size = begin(init_method=os.environ["MEETING"], rank=rank, world_size=2, timeout=datetime.timedelta(seconds=6))
        part = dist.new_group([0, 1])
        mark = os.environ["MEETING"].removeprefix("file://") + ".late"
        if rank == 1:
            error = error_of(lambda: dist.all_reduce(torch.ones(2)))
            open(mark, "w").close()
            assert "rank 0 has made no call yet" in str(error), error
        while not os.path.exists(mark):
            time.sleep(0.05)
        say_fine(rank, size)
        """)
        self.fine("".join(outputs), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
