"""unisono.torch2018: how processes join and leave, what they may not do, and programs of its time. Starts its own jobs."""

import importlib.util
import shutil
import socket
import sys
import textwrap
import unittest

from covers import covers
from jobs import JobTest

if importlib.util.find_spec("torch") is None:
    print("skipped: the package torch is missing")
    raise SystemExit(0)

import unisono

BEGIN = """
import torch, unisono.torch2018 as dist
from multiprocessing import get_context
torch.set_num_threads(1)
def together(n, function, *args, expect=0):
    children = [get_context("fork").Process(target=function, args=(r, n, *args)) for r in range(n)]
    [child.start() for child in children]
    [child.join() for child in children]
    assert [child.exitcode for child in children] == [expect] * n, [child.exitcode for child in children]
def refused(kind, text, function, *args, **kwargs):
    try: function(*args, **kwargs)
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"nothing was raised: {args} {kwargs}")
def total(n):
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [n] * 3, x
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Jobs(JobTest):
    def alone(self, text, **how):
        return super().alone(BEGIN + textwrap.dedent(text), **how)

    def ranks(self, text, n=2, **how):
        return super().ranks(BEGIN + textwrap.dedent(text), n, **how)


class Starts(Jobs):
    @covers("T-03", "T-06", "T-07", "T-11", "T-42", "T-45", "TS-48", "K-08")
    def test_ranks_meet_at_an_address_and_meet_there_again(self):
        self.alone(f"""
        def rank(r, n):
            for backend in ("tcp", "gloo", "TCP"):
                dist.init_process_group(backend, init_method="tcp://127.0.0.1:{free_port()}", rank=r, world_size=n)
                assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (r, n, backend.lower())
                total(n)
                dist.destroy_process_group()
                assert not dist.is_initialized() and dist._backend == dist.dist_backend.UNDEFINED
                dist.destroy_process_group()
                refused(AssertionError, "", dist.get_rank)
        together(3, rank)
        """)

    @covers("T-08", "T-43", "TS-48", "K-15")
    def test_ranks_meet_by_multicast_and_need_no_number(self):
        port = free_port()
        self.alone(f"""
        def rank(r, n, name, fixed):
            given = {{"rank": n - 1}} if fixed and r == 0 else {{}}
            dist.init_process_group("tcp", init_method="tcp://224.66.41.62:{port}", world_size=n, group_name=name, timeout=60, **given)
            assert not given or dist.get_rank() == n - 1
            found = [torch.zeros(1) for _ in range(n)]
            dist.all_gather(found, torch.tensor([float(dist.get_rank())]))
            assert [x.item() for x in found] == list(range(n)), found
        def job(r, n, name):
            together(2, rank, name, r == 1)
        together(2, job, "one name"), together(2, rank, "", True)
        names = ("a name with spaces", "another")
        from threading import Thread
        jobs = [get_context("fork").Process(target=job, args=(i, 2, names[i])) for i in range(2)]  # two at once, at one address
        [each.start() for each in jobs], [each.join() for each in jobs]
        assert [each.exitcode for each in jobs] == [0, 0]
        address = "tcp://224.66.41.62:{port}"
        refused(RuntimeError, "3", dist.init_process_group, "tcp", init_method=address, world_size=2, rank=3)
        assert not dist.is_initialized()
        error = refused(unisono.Timeout, "", dist.init_process_group, "tcp", init_method=address, world_size=2, group_name="nobody else", timeout=0.3)
        assert isinstance(error, RuntimeError)
        dist.init_process_group("tcp", init_method=address, world_size=1)
        assert dist.get_rank() == 0
        """, UNISONO_TOKEN="a secret of sixteen bytes or more")

    @covers("T-07", "T-08", "T-44", "TS-48", "K-16")
    def test_ranks_meet_in_a_file_and_the_last_one_removes_it(self):
        self.alone("""
        place = f"file://{os.getcwd()}/meeting"
        def rank(r, n, how, leaves):
            given = {"rank": n - 1} if r == 0 else {}
            dist.init_process_group("tcp", init_method=place, world_size=n, **how, **given)
            assert not given or dist.get_rank() == n - 1
            found = [torch.zeros(1) for _ in range(n)]
            dist.all_gather(found, torch.tensor([float(dist.get_rank())]))
            assert [x.item() for x in found] == list(range(n)), found
            dist.barrier()
            if not leaves: os._exit(0)
            dist.destroy_process_group()
        together(3, rank, {}, True)
        assert not os.path.exists("meeting")
        together(2, rank, {}, False)                # they crash, and leave the file
        assert os.path.exists("meeting")
        together(3, rank, {}, True)
        jobs = [get_context("fork").Process(target=together, args=(2, rank, {"group_name": name}, True)) for name in ("a", "b")]
        [each.start() for each in jobs], [each.join() for each in jobs]
        assert [each.exitcode for each in jobs] == [0, 0]
        refused(unisono.Timeout, "", dist.init_process_group, "gloo", init_method=place, world_size=2, timeout=0.3)
        dist.init_process_group("gloo", init_method=place, world_size=1)
        total(1)
        """)

    @covers("T-05", "T-08", "T-41", "C-10")
    def test_the_environment_says_where_and_who(self):
        port = free_port()
        self.alone(f"""
        init = dist.init_process_group
        refused(RuntimeError, "rank is not set but it is required for env:// init method", init, "tcp", world_size=2)
        refused(RuntimeError, "world_size is not set but it is required for env:// init method", init, "tcp", rank=0)
        refused(RuntimeError, "failed to read the MASTER_PORT environmental variable", init, "tcp", rank=0, world_size=2)
        os.environ["MASTER_PORT"] = "1"
        refused(RuntimeError, "failed to read the MASTER_ADDR environmental variable", init, "tcp", rank=1, world_size=2)
        def rank(r, n, given):
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}", RANK=str(r), WORLD_SIZE=str(n))
            if given == "arguments":
                del os.environ["RANK"], os.environ["WORLD_SIZE"]
                dist.init_process_group("gloo", rank=r, world_size=n)
            elif given == "both":
                for wrong in ({{"rank": r + 1}}, {{"world_size": n + 1}}):
                    refused(RuntimeError, "specified both as an environmental variable and to the initializer", init, "gloo", **wrong)
                refused(RuntimeError, "group_name is not supported in env:// init method", init, "gloo", group_name="a")
                assert not dist.is_initialized() and dist._backend == -1
                dist.init_process_group("gloo", "env://", rank=r, world_size=n)
            else:
                dist.init_process_group(init_method="env://", backend="tcp")
            total(n)
        for given in ("arguments", "both", "environment"):
            together(2, rank, given)
        """)
        self.ranks("""
        dist.init_process_group("tcp", world_size=2)
        total(2)
        """)

    @covers("T-04", "T-05", "T-06", "T-07", "T-09", "K-01", "K-04", "K-18")
    def test_wrong_arguments_leave_nothing_behind(self):
        self.alone("""
        init = dist.init_process_group
        for wrong in ("udp", "", 5, None, "undefined"):
            refused(RuntimeError, "Invalid distributed backend name", init, wrong)
        for scheme in ("tcp://127.0.0.1:1", "file:///tmp/none"):
            refused(RuntimeError, "world_size is not given", init, "tcp", init_method=scheme, rank=0)
        refused(RuntimeError, "rank", init, "gloo", init_method="tcp://127.0.0.1:1", world_size=2)
        refused(RuntimeError, "none://", init, "gloo", init_method="none://here", world_size=2)
        refused(AssertionError, "got unexpected keyword arguments: ranks", init, "gloo", ranks=2)
        refused(RuntimeError, "2", init, "gloo", init_method="tcp://127.0.0.1:1", world_size=2, rank=2)
        refused(RuntimeError, "", init, "gloo", init_method="tcp://127.0.0.1", world_size=2, rank=2)
        if not dist.is_nccl_available():
            error = refused(RuntimeError, "recompile", init, "nccl", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
            assert type(error) is unisono.BackendUnavailable and "NCCL" in str(error)
        assert not dist.is_initialized() and (dist._backend, dist._initialized) == (-1, 0)
        refused(RuntimeError, "needs to be initialized first", dist._register_stream, None)
        init("GLOO", init_method=f"file://{os.getcwd()}/f", rank=0, world_size=1, group_name="a")
        total(1)
        dist.destroy_process_group()
        init("tcp", init_method="tcp://224.66.41.62:23456", world_size=1)  # nobody else can come, and no secret is needed
        total(1)
        """)

    @covers("T-07", "T-42")
    def test_two_processes_with_one_rank_are_refused(self):
        output = self.alone(f"""
        def rank(r, n):
            error = refused(RuntimeError, "rank", dist.init_process_group, "tcp", init_method=f"file://{{os.getcwd()}}/f", rank=0, world_size=n, timeout=20)
            print("refused", flush=True)
        children = [get_context("fork").Process(target=rank, args=(r, 2)) for r in range(2)]
        children[0].start()
        while not os.path.exists("f"): time.sleep(0.01)
        children[1].start()
        children[1].join()
        children[0].terminate()
        """)
        self.assertIn("refused", output)

    @covers("K-03", "T-20", "T-19")
    def test_calls_without_a_group_are_assertion_errors_without_assertions_as_well(self):
        path = self.program(BEGIN + textwrap.dedent("""
        x = torch.zeros(1)
        calls = [lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 0), lambda: dist.reduce(x, 0), lambda: dist.all_gather([x], x), lambda: dist.barrier(),
                 lambda: dist.gather(x, gather_list=[x]), lambda: dist.scatter(x, scatter_list=[x]), lambda: dist.send(x, 0), lambda: dist.recv(x),
                 lambda: dist.isend(x, 0), lambda: dist.irecv(x, 0), lambda: dist.new_group(), lambda: dist.all_reduce_multigpu([x]),
                 lambda: dist.broadcast_multigpu([x], 0), lambda: dist.reduce_multigpu([x], 0), lambda: dist.all_gather_multigpu([[x]], [x]),
                 lambda: dist.DistributedDataParallelCPU(torch.nn.Linear(1, 1))]
        for call in calls:
            error = refused(AssertionError, "collective only supported in process-group mode", call)
            assert isinstance(error, unisono.NotInitialized)
        for call in (dist.get_rank, dist.get_world_size):
            refused(AssertionError, "not initialized", call)
        """))
        self.run_command([sys.executable, "-O", path])

    @covers("T-12", "K-08")
    def test_a_program_ends_well_without_leaving(self):
        self.ranks("""
        dist.init_process_group("gloo")
        request = dist.isend(torch.ones(100_000), 1) if dist.get_rank() == 0 else dist.irecv(torch.ones(100_000), 0)
        request.wait()
        """)

    @covers("T-40")
    def test_the_names_of_a_module_are_taken_over(self):
        self.alone("""
        import types
        other = types.ModuleType("other")
        other.new_name, other._hidden, other.group, other.reduce_op = 3, 4, 5, 6
        before = dist.group, dist.reduce_op
        dist._extend_scope(other)
        assert dist.new_name == 3 and not hasattr(dist, "_hidden") and (dist.group, dist.reduce_op) == before
        """)


class Failures(Jobs):
    @covers("K-20", "K-09", "T-18", "T-25")
    def test_a_lost_rank_is_named_and_nobody_waits_for_ever(self):
        self.alone(f"""
        import signal
        def rank(r, n):
            dist.init_process_group("tcp", init_method="tcp://127.0.0.1:{free_port()}", rank=r, world_size=n)
            total(n)
            if r == 1: os.kill(os.getpid(), signal.SIGKILL)
            error = refused(unisono.PeerFailed, "1", dist.all_reduce, torch.ones(1))
            assert isinstance(error, RuntimeError) and isinstance(error, ConnectionError) and error.culprit == 1, error
            error = refused(RuntimeError, "", dist.irecv, torch.ones(1), 1)
            os._exit(0)
        children = [get_context("fork").Process(target=rank, args=(r, 3)) for r in range(3)]
        [child.start() for child in children]
        [child.join() for child in children]
        assert [child.exitcode for child in children] == [0, -9, 0], children
        """)
        self.ranks("""
        dist.init_process_group("gloo", timeout=300)
        error = refused(unisono.Timeout, "", dist.recv, torch.ones(1), group=dist.new_group(timeout=0.3))
        assert isinstance(error, RuntimeError), error
        os._exit(0)
        """)

    @covers("T-28", "T-30", "K-18")
    def test_calls_that_differ_are_an_error_on_every_rank(self):
        self.ranks("""
        dist.init_process_group("tcp")
        r = dist.get_rank()
        for call in (lambda: dist.all_reduce(torch.ones(r + 1)), lambda: dist.broadcast(torch.ones(1), r), lambda: dist.reduce(torch.ones(1), r),
                     lambda: dist.all_reduce(torch.ones(1), dist.reduce_op.MAX if r else dist.reduce_op.MIN),
                     lambda: dist.all_reduce(torch.ones(1)) if r else dist.barrier()):
            refused(unisono.Mismatch, "", call)
        total(2)
        """)


class Programs(Jobs):
    @covers("T-17", "T-21", "T-34", "T-46")
    def test_writing_distributed_applications_runs_with_its_import_changed(self):
        text = """
        from torch.multiprocessing import Process

        def run(rank, size):
            group = dist.new_group([0, 1])
            tensor = torch.ones(1)
            dist.all_reduce(tensor, op=dist.reduce_op.SUM, group=group)
            say("Rank ", rank, " has data ", tensor[0].item())
            gathered = [torch.zeros(1) for _ in range(size)] if rank == 0 else []
            dist.gather(tensor * (rank + 1), dst=0, gather_list=gathered)
            say("gathered", [x.item() for x in gathered])
            mine = torch.zeros(1)
            if rank == 0: dist.scatter(mine, src=0, scatter_list=[torch.full((1,), float(i)) for i in range(size)])
            else: dist.scatter(mine, src=0)
            assert mine.item() == rank
            tensor = torch.zeros(1)
            if rank == 0:
                tensor += 1
                for dst in range(1, size): dist.send(tensor=tensor, dst=dst)
            else:
                assert dist.recv(tensor=tensor, src=0) == 0
            assert tensor[0] == 1
            request = None
            if rank == 0: request = dist.isend(tensor=tensor + 1, dst=1)
            if rank == 1: request = dist.irecv(tensor=tensor, src=0)
            if request is not None:
                request.wait()
                assert request.is_completed() and tensor[0] == rank + 1
            allreduce(rank, size)
            train(rank, size)

        def allreduce(rank, size):          # the tutorial's ring
            send, right, left = torch.full((2,), rank + 1.0), (rank + 1) % size, (rank - 1) % size
            send_buff, recv_buff, accum = send.clone(), torch.zeros(2), send.clone()
            for i in range(size - 1):
                if i % 2 == 0:
                    send_req = dist.isend(send_buff, right)
                    dist.recv(recv_buff, left)
                    accum[:] += recv_buff[:]
                else:
                    send_req = dist.isend(recv_buff, right)
                    dist.recv(send_buff, left)
                    accum[:] += send_buff[:]
                send_req.wait()
            assert accum.tolist() == [size * (size + 1) / 2] * 2, accum

        def average_gradients(model):
            size = float(dist.get_world_size())
            for param in model.parameters():
                dist.all_reduce(param.grad.data, op=dist.reduce_op.SUM)
                param.grad.data /= size

        def train(rank, size):
            torch.manual_seed(1234)
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            data = torch.randn(6 * size, 4)[rank::size]
            for epoch in range(3):
                optimizer.zero_grad()
                loss = (model(data) - data.sum(1, keepdim=True)).pow(2).mean()
                loss.backward()
                average_gradients(model)
                optimizer.step()
            every = [torch.zeros(1, 4) for _ in range(size)]
            dist.all_gather(every, model.weight.data)
            assert all(torch.equal(each, every[0]) for each in every)
            say("trained")

        def say(*words):
            os.write(1, (" ".join(map(str, words)) + "\\n").encode())

        def init_processes(rank, size, fn, backend):
            os.environ["MASTER_ADDR"] = "127.0.0.1"
            os.environ["MASTER_PORT"] = "@PORT"
            dist.init_process_group(backend, rank=rank, world_size=size)
            fn(rank, size)

        if __name__ == "__main__":
            for backend in ("tcp", "gloo"):
                processes = [Process(target=init_processes, args=(rank, 3, run, backend)) for rank in range(3)]
                for p in processes: p.start()
                for p in processes: p.join()
                assert [p.exitcode for p in processes] == [0, 0, 0]
        """
        output = self.alone(text.replace("@PORT", str(free_port())))
        self.assertEqual(output.count("has data  2.0"), 4, output)
        self.assertEqual(output.count("has data  1.0"), 2, output)
        self.assertEqual(output.count("gathered [2.0, 4.0, 3.0]"), 2, output)
        self.assertEqual(output.count("trained"), 6, output)

    @covers("T-47")
    def test_the_class_with_buffers_trains_as_one_process_does(self):
        self.ranks("""
        dist.init_process_group("gloo")
        r = dist.get_rank()
        torch.manual_seed(3)
        alone = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
        import copy
        own = copy.deepcopy(alone)
        with torch.no_grad(): [p.add_(r) for p in own.parameters()]
        own.register_buffer("seen", torch.full((2,), float(r)))
        model = dist.DistributedDataParallel(own, device_ids=None, output_device=None, dim=0, broadcast_buffers=True)
        assert (model.dim, model.broadcast_buffers, model.module) == (0, True, own) and own.seen.tolist() == [0, 0]
        for step in range(2):
            x = torch.randn(4, 2)
            own.seen += r + 1
            for each, part in ((alone, x), (model, x[2 * r : 2 * r + 2])):
                each(part).pow(2).mean().backward()
                for p in each.parameters():
                    p.data -= 0.1 * p.grad
                    p.grad = None
            for mine, theirs in zip(own.parameters(), alone.parameters()): torch.testing.assert_close(mine, theirs)
            assert own.seen.tolist() == [step + 1] * 2, own.seen
        still = dist.DistributedDataParallel(torch.nn.BatchNorm1d(2), broadcast_buffers=False)
        still(torch.randn(3, 2) + r)
        """)

    @covers("T-03", "T-06", "T-07", "K-17", "B-25")
    def test_mpirun_says_who_a_process_is(self):
        if not shutil.which("mpirun") or not unisono.is_backend_available("mpi"):
            self.skipTest("an MPI and its mpirun are missing")
        self.alone("""
        refused(RuntimeError, "rank 1 of 2 is given, and MPI has this process alone", dist.init_process_group, "mpi", rank=1, world_size=2)
        dist.init_process_group("mpi", rank=0, world_size=1)
        total(1)
        assert dist.get_backend() == "mpi"
        """)
        path = self.program(BEGIN + textwrap.dedent("""
        import warnings
        refused(RuntimeError, "rank", dist.init_process_group, "mpi", rank=7, world_size=9)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            dist.init_process_group("mpi", init_method="file:///tmp/is-not-used")
        assert "is not used" in str(told[0].message), told
        assert dist.get_world_size() == 2 and dist.get_backend() == "mpi" and unisono.backend() == "mpi"
        total(2)
        x = torch.tensor([float(dist.get_rank())])
        dist.all_reduce_multigpu([x])
        assert x.item() == 1
        group = dist.new_group([1, 0])
        dist.broadcast(x, 1, group)
        dist.destroy_process_group()
        """))
        self.run_command(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, path])


if __name__ == "__main__":
    unittest.main(verbosity=2)
