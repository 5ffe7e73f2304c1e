"""unisono.torch2018: what happens when ranks are lost or differ, and programs of its time. Starts its own jobs."""

import shutil
import sys
import textwrap
import unittest

from covers import covers
from torch2018_programs import BEGIN, Jobs, free_port

import unisono

# The program of "Writing Distributed Applications with PyTorch", of 2018.
TUTORIAL = """
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
        dist.barrier()  # a group has to be formed within its timeout as well: that begins when both have come
        group = dist.new_group(timeout=2)
        error = refused(unisono.Timeout, "", dist.recv, torch.ones(1), group=group)
        assert isinstance(error, RuntimeError), error
        dist.barrier()
        group = dist.new_group(timeout=2)
        if dist.get_rank() == 0:
            refused(RuntimeError, " Timed out waiting for rank 1", dist.barrier, group)
            dist.send(torch.ones(1), 1)
        else:
            dist.recv(torch.ones(1), 0)
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
        output = self.alone(TUTORIAL.replace("@PORT", str(free_port())))
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
