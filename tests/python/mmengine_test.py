"""unisono.mmengine beside mmengine.dist: the same names, and the same results of one script; then what is better than the original."""

import importlib
import importlib.util
import inspect
import os
import pickle
import re
import sys
import unittest
from pathlib import Path
from unittest import mock

import torch
from covers import covers
from jobs import UNISONO, JobTest

import unisono.mmengine

TIMEOUT = 300  # seconds, of one job; a busy machine starts processes slowly
CALLS = Path(__file__).with_name("mmengine_calls.py")
RESULTS = Path(__file__).with_name("mmengine_results.py")
needs_original = unittest.skipUnless(importlib.util.find_spec("mmengine"), "mmengine is not installed (pip install mmengine)")
BEGIN = """
import os, sys, numpy as np, torch, unisono.mmengine as dist
from unisono._errors import NotMember
torch.set_num_threads(1)
dist.init_dist("pytorch", timeout=60)
rank, size = dist.get_dist_info()
def error_of(f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except Exception as error:
        return error
    raise AssertionError("it went well")
"""
END = """
dist.barrier()
torch.distributed.destroy_process_group()
print("fine")
"""


class Names(unittest.TestCase):
    def test_there_are_31_and_each_is_documented(self):
        self.assertEqual(len(unisono.mmengine.__all__), 31)
        for name in unisono.mmengine.__all__:
            self.assertTrue(getattr(unisono.mmengine, name).__doc__, name)

    @needs_original
    def test_names_and_arguments_are_those_of_the_original(self):
        import mmengine.dist

        self.assertEqual(set(unisono.mmengine.__all__), set(mmengine.dist.__all__))
        for name in mmengine.dist.__all__:
            ours, theirs = (inspect.signature(getattr(module, name)) for module in (unisono.mmengine, mmengine.dist))
            ours, theirs = ([(p.name, p.default) for p in arguments.parameters.values()] for arguments in (ours, theirs))
            more = [("device", None)] if name == "broadcast_object_list" else []  # which only the original's documents have
            self.assertEqual(ours, theirs + more, name)
        for name in ("", ".dist", ".utils"):
            theirs, ours = (importlib.import_module(module + name) for module in ("mmengine.dist", "unisono.mmengine.dist"))
            names = {n for n, value in vars(theirs).items() if getattr(value, "__module__", "") == theirs.__name__ and not n.startswith("_")}
            self.assertEqual({n for n in names if not hasattr(ours, n)}, set(), name)


class Lists(unittest.TestCase):
    @covers("M-33", "M-35", "M-36", "M-37")
    def test_launchers_tell_the_place(self):
        from unisono.mmengine._launch import _places

        mpi = {f"OMPI_COMM_WORLD_{what}": number for what, number in (("RANK", "5"), ("SIZE", "8"), ("LOCAL_RANK", "1"), ("LOCAL_SIZE", "4"))}
        slurm = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NODELIST": "n[07-08]", "SLURM_JOB_ID": "12345_3"}
        for launcher, environment, port, place in (
            ("mpi", mpi | {"MASTER_ADDR": "a"}, None, "tcp://a:29500"),
            ("mpi", mpi | {"MASTER_ADDR": "a", "MASTER_PORT": "7"}, None, "tcp://a:7"),
            ("slurm", slurm, None, "tcp://n07:17345"),
            ("slurm", slurm | {"MASTER_ADDR": "a", "MASTER_PORT": "7"}, 8, "tcp://a:8"),
        ):
            with mock.patch.dict(os.environ, environment, clear=True):
                self.assertEqual(unisono.mmengine.infer_launcher(), launcher)
                self.assertEqual(_places[launcher](port), (1, {"rank": 5, "world_size": 8, "init_method": place}))
        with mock.patch.dict(os.environ, {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}, clear=True):
            self.assertEqual(unisono.mmengine.infer_launcher(), "pytorch")
            self.assertEqual(_places["pytorch"](None), (1, {"rank": 3, "world_size": 4, "init_method": "env://"}))
        for launcher, environment in (("mpi", mpi), ("pytorch", {"RANK": "0"}), ("slurm", {"SLURM_PROCID": "0"})):
            with mock.patch.dict(os.environ, environment, clear=True), self.assertRaises(KeyError):
                _places[launcher](None)

    @covers("M-37")
    def test_the_first_host_of_slurms_list_is_read(self):
        from unisono.mmengine._launch import first_host

        for text, host in {"a": "a", "a,b": "a", "n[003-005,7]": "n003", "n[1,2]-x,m": "n1-x", "r[2-4]n[05-06]": "r2n05", "a.b-c": "a.b-c"}.items():
            self.assertEqual(first_host(text), host)
        for text in ("", "n[1-"):
            with self.assertRaises(ValueError):
                first_host(text)

    def test_arguments_are_checked_before_anything_is_joined(self):
        for kwargs, error in {("none",): ValueError, ("pytorch", "gloo", "horovod"): ValueError, ("pytorch", "gloo", "deepspeed"): NotImplementedError}.items():
            with self.assertRaises(error):
                unisono.mmengine.init_dist(*kwargs)
        with self.assertRaisesRegex(TypeError, "timeout in seconds"):
            unisono.mmengine.init_dist("pytorch", timeout="long")
        with self.assertRaises(KeyError):
            unisono.mmengine.init_dist("mpi")

    @covers("R-12", "C-11")
    def test_alone_the_operation_is_checked_and_results_are_copies(self):
        x = torch.ones(2)
        for op in ("median", None, torch.distributed.ReduceOp.PREMUL_SUM):
            with self.assertRaises(ValueError):
                unisono.mmengine.all_reduce(x, op)
        self.assertIsNot(unisono.mmengine.all_gather(x)[0], x)
        unisono.mmengine.all_gather(x)[0].zero_()
        self.assertEqual(x.tolist(), [1, 1])


class SideBySide(JobTest):
    def same(self, ours, theirs, where):
        if isinstance(theirs, torch.Tensor):
            self.assertEqual((ours.dtype, ours.shape), (theirs.dtype, theirs.shape), where)
            self.assertTrue(torch.equal(ours, theirs), f"{where}: {ours} and {theirs}")
        elif isinstance(theirs, dict):
            self.assertEqual(list(ours), list(theirs), where)
            for key in theirs:
                self.same(ours[key], theirs[key], f"{where} {key}")
        elif isinstance(theirs, (list, tuple)):
            self.assertEqual((type(ours), len(ours)), (type(theirs), len(theirs)), where)
            for i, item in enumerate(theirs):
                self.same(ours[i], item, f"{where} {i}")
        else:
            self.assertEqual(ours, theirs, where)

    @needs_original
    def compare(self, n):
        self.run_command([UNISONO, "run", "-n", str(n), "--", sys.executable, str(CALLS), str(self.folder)], timeout=TIMEOUT)
        for rank in range(n):
            ours, theirs = (pickle.loads((self.folder / f"{which}-{rank}.pickle").read_bytes()) for which in ("ours", "original"))
            for where in ("alone", "job"):
                self.assertGreater(len(theirs[where]), 80)
                self.same(ours[where], theirs[where], f"rank {rank} of {n}, {where}:")

    def test_one_rank_computes_what_the_original_does(self):
        self.compare(1)

    @covers(*(f"M-{row:02}" for row in (*range(1, 13), 14, *range(16, 20), *range(21, 36), 38, 39, 40)))
    def test_two_ranks_compute_what_the_original_does(self):
        self.compare(2)


class Runners(JobTest):
    """mmengine's Runner trains on unisono as on gloo."""

    PROGRAM = """
import sys, torch
from torch import nn
from mmengine.model import BaseModel, MMDistributedDataParallel
from mmengine.runner import Runner
torch.set_num_threads(1)
if sys.argv[1] == "ours":
    import unisono.mmengine
    unisono.mmengine.init_dist("pytorch")
else:
    torch.distributed.init_process_group("gloo")
class Model(BaseModel):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 1)
    def forward(self, x, y, mode="loss"):
        return {"loss": (self.linear(x) - y).square().mean()}
x = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))
loader = dict(batch_size=2, dataset=list(zip(x, x.sum(1, keepdim=True))), sampler=dict(type="DefaultSampler", shuffle=False),
              collate_fn=dict(type="default_collate"))
runner = Runner(MMDistributedDataParallel(Model()), sys.argv[2], train_dataloader=loader, train_cfg=dict(by_epoch=True, max_epochs=2),
                optim_wrapper=dict(optimizer=dict(type="SGD", lr=0.1)), launcher="pytorch", default_hooks=dict(checkpoint=None), log_level="ERROR")
runner.train()
print("weights", [p.tolist() for p in runner.model.parameters()], torch.distributed.get_backend())
torch.distributed.destroy_process_group()  # one process in ten aborts when it ends with a group of gloo
"""

    @needs_original
    @unittest.skipUnless(importlib.util.find_spec("cv2"), "what mmengine's Runner needs is not installed (scripts/get/frameworks --all)")
    def test_a_runner_trains_alike(self):
        path = self.folder / "program.py"
        path.write_text(self.PROGRAM)
        weights = {}
        for which in ("ours", "original"):
            command = [UNISONO, "run", "-n", "2", "--", sys.executable, str(path), which, str(self.folder / which)]
            output = self.run_command(command, timeout=TIMEOUT)
            weights[which] = re.findall(r"weights (.*) (\w+)$", output, re.MULTILINE)
            self.assertEqual(len(weights[which]), 2, output)
        self.assertEqual([w for w, _ in weights["ours"]], [w for w, _ in weights["original"]])
        self.assertEqual({backend for _, backend in weights["ours"]}, {"unisono"})


class Better(JobTest):
    def fine(self, text, n=2, **how):
        path = self.folder / "program.py"
        path.write_text(BEGIN + text + END)
        output = self.run_command([UNISONO, "run", "-n", str(n), "--", sys.executable, str(path)], timeout=TIMEOUT, **how)
        self.assertEqual(output.count("fine"), n, output)

    @covers("K-61", "C-05", "Q-04")
    def test_strided_tensors_and_the_mean_of_large_integers_are_exact(self):
        self.fine("""
x = (torch.arange(6.0).reshape(2, 3) + rank).t()
dist.all_reduce(x)
assert torch.equal(x, 2 * torch.arange(6.0).reshape(2, 3).t() + 1), x
assert torch.equal(dist.all_gather(torch.arange(6).reshape(2, 3).t() + rank)[1], torch.arange(6).reshape(2, 3).t() + 1)
x = torch.tensor([2**40 + rank * 2, -3, 3 * rank])
dist.all_reduce(x, "mean")
assert x.tolist() == [2**40 + 1, -3, 1], x
""")

    @covers("K-58", "C-07", "C-09", "K-69")
    def test_groups_count_their_own_ranks_and_turn_others_away(self):
        self.fine("""
group = torch.distributed.new_group([1, 2])
x = torch.tensor([rank])
if rank == 0:
    for call in (dist.all_reduce, dist.all_gather, dist.broadcast, dist.gather, dist.all_gather_object, dist.gather_object, dist.all_reduce_params):
        assert isinstance(error_of(call, x, group=group), NotMember), call
    assert isinstance(error_of(dist.sync_random_seed, group), NotMember) and dist.get_dist_info(group) == (-1, -1)
else:
    assert [t.item() for t in dist.gather(x, 1, group)] == ([1, 2] if rank == 2 else [])
    assert dist.gather_object(rank, 1, group) == ([1, 2] if rank == 2 else None)
    dist.broadcast(x, 1, group)
    assert x.item() == 2
    many = [rank]
    dist.broadcast_object_list(many, 0, group)
    assert many == [1]
    dist.sync_random_seed(group)
    assert "dst=2" in str(error_of(dist.gather, x, 2, group))
""", n=3)

    @covers("M-15", "M-20", "M-25", "M-38", "K-59", "K-60", "K-67")
    def test_examples_of_the_originals_documents_work(self):
        self.fine("""
from unisono.mmengine.dist.dist import _all_reduce_coalesced, _get_reduce_op
from unisono.mmengine.dist.utils import get_rank
import unisono.mmengine.utils
assert (get_rank(), dist.get_dist_info(), dist.get_backend()) == (rank, (rank, 2), "unisono")
for op, expected in ((dist.ReduceOp.SUM, [4, 6]), (torch.distributed.ReduceOp.MAX, [3, 4]), ("produce", [3, 8]), (dist.ReduceOp.AVG, [2, 3]), ("Min", [1, 2])):
    x = torch.arange(2) + 1 + 2 * rank
    dist.all_reduce(x, op=op)
    assert x.tolist() == expected, (op, x)
objects = ["foo", 12, {1: 2}] if rank == 0 else [None] * 3
dist.broadcast_object_list(objects, device=torch.device("cpu"))
assert objects == ["foo", 12, {1: 2}]
assert (_get_reduce_op("SUM"), _get_reduce_op("bxor")) == (dist.ReduceOp.SUM, dist.ReduceOp.BXOR)
tensors = [torch.full((n,), rank + 1.0, dtype=dtype) for n, dtype in ((3, torch.float32), (2, torch.float64), (4, torch.float32))]
_all_reduce_coalesced(tensors, 1, "product")
assert all(tensor.eq(2).all() for tensor in tensors), tensors
# nothing is reduced where the ranks' dicts differ, or one of several tensors cannot be reduced
for wrong in ({"loss": torch.ones(1 + rank)}, {"a" if rank else "loss": torch.ones(1)}):
    error = error_of(dist.all_reduce_dict, wrong)
    assert isinstance(error, ValueError) and "loss" in str(error), error
for op, wrong in (("mean", torch.ones(2, dtype=torch.bool)), ("band", torch.ones(2)), ("max", torch.ones(2, dtype=torch.complex64))):
    x = torch.full((2,), rank + 1)
    for call, data in ((dist.all_reduce_dict, {"a": x, "b": wrong}), (dist.all_reduce_params, [x, wrong])):
        assert isinstance(error_of(call, data, op=op), ValueError)
        assert x.tolist() == [rank + 1] * 2, x
""")

    @covers("K-62", "K-68")
    def test_dicts_keep_their_dtypes_and_seeds_leave_generators_alone(self):
        self.fine("""
data = {"n": torch.tensor([1 + 2 * rank]), "x": torch.tensor([0.5 + rank])}
alias = data["x"]
dist.all_reduce_dict(data if rank else dict(reversed(data.items())), "mean")
assert data["n"].dtype == torch.int64 and data["n"].item() == 2 and alias.item() == 1, data
dist.all_reduce_dict({})
error = error_of(dist.all_reduce_dict, {"loss": torch.ones(1 + rank)})
assert isinstance(error, ValueError) and "loss" in str(error), error
np.random.seed(rank)
seed = dist.sync_random_seed()
expected = np.random.RandomState(rank)
if rank == 0:
    assert seed == expected.randint(2**31)
assert np.random.randint(1000) == expected.randint(1000)
""")

    @covers("K-63", "K-64", "M-13", "Q-14", "Q-15")
    def test_results_of_any_length_are_collected_and_a_missing_folder_is_an_error(self):
        self.fine("""
part = [None, 1, 2] if rank == 0 else [10]
for device in ("cpu", "gpu"):
    assert dist.collect_results(part, 10, device) == ([None, 10, 1, 2] if rank == 0 else None)
folder = os.path.join(os.getcwd(), "shared")
assert dist.collect_results(part, 10, "cpu", folder) == ([None, 10, 1, 2] if rank == 0 else None)
dist.barrier()  # each rank removes its own file
assert os.listdir(folder) == []
error = error_of(dist.collect_results, part, 10, "cpu", f"private{rank}")
assert isinstance(error, FileNotFoundError) and "rank 1" in str(error), error
error = error_of(dist.collect_results, [lambda: 0] if rank else part, 10, "cpu", folder)
assert "lambda" in str(error), error
""")

    def test_results_in_files_are_taken_from_their_writers_alone(self):
        self.fine(RESULTS.read_text())

    @covers("K-65", "K-66", "M-18", "M-19", "M-23", "M-24")
    def test_local_ranks_need_no_further_call(self):
        self.fine("""
assert (dist.get_local_rank(), dist.get_local_size()) == (rank, 4)
dist.init_local_group(rank // 2, 2)  # as if there were two hosts
assert (dist.get_local_rank(), dist.get_local_size()) == (rank % 2, 2)
x = torch.tensor([rank])
dist.all_reduce(x, group=dist.get_local_group())
assert x.item() == (1 if rank < 2 else 5)
assert isinstance(error_of(dist.init_local_group, 0, 4), AssertionError)
""", n=4)

    @covers("M-33", "M-36", "M-37", "K-73", "C-13")
    def test_init_dist_reads_the_variables_of_mpi_and_slurm(self):
        common = """
import os, subprocess, sys, torch
import unisono.mmengine as dist
for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
    place = os.environ.pop(name)
    for other in VARIABLES[name]:
        os.environ[other] = place
os.environ.pop("LOCAL_WORLD_SIZE")
os.environ.update(MORE)
assert dist.infer_launcher() == LAUNCHER, dist.infer_launcher()
before = dict(os.environ)
dist.init_dist(dist.infer_launcher(), timeout=60)
assert dict(os.environ) == before
assert dist.get_backend() == "unisono" and dist.get_world_size() == 2 and dist.get_local_rank() == dist.get_rank()
"""
        mpi = {name: [f"OMPI_COMM_WORLD_{name.removeprefix('WORLD_')}"] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
        slurm = {"RANK": ["SLURM_PROCID"], "WORLD_SIZE": ["SLURM_NTASKS"], "LOCAL_RANK": ["SLURM_LOCALID"]}
        for launcher, variables, more in (("mpi", mpi, {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}), ("slurm", slurm, {"SLURM_NODELIST": "127.0.0.1"})):
            text = f"VARIABLES = {variables}\nMORE = {more}\nLAUNCHER = {launcher!r}\n" + common + END
            path = self.folder / "program.py"
            path.write_text(text)
            output = self.run_command([UNISONO, "run", "-n", "2", "--", sys.executable, str(path)], timeout=TIMEOUT)
            self.assertEqual(output.count("fine"), 2, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
