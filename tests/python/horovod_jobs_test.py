"""unisono.horovod.torch as a whole: its names are Horovod's, and jobs begin, fail and end as they should."""

import inspect
import sys
import unittest

from jobs import UNISONO, JobTest

import unisono.horovod.torch as hvd
from unisono.horovod.torch import _requests

TIMEOUT = 300  # seconds, of one job; a busy machine starts processes slowly
BEGIN = """
import os, signal, sys, time, torch
import unisono.horovod.torch as hvd
torch.set_num_threads(1)
def error_of(f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except Exception as error:
        return error
    raise AssertionError("it went well")
"""

# The names of horovod.torch 0.28.1 with their arguments. "set" stands for process_set=global_process_set, "none" for Compression.none, "avg" for Average.
REDUCE = "average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, set"
REDUCE_COMPRESSED = "average=None, name=None, none, op=None, prescale_factor=1.0, postscale_factor=1.0, set"
SCATTER = "name=None, avg, set, prescale_factor=1.0, postscale_factor=1.0"
SCATTER_COMPRESSED = "name=None, none, avg, set, prescale_factor=1.0, postscale_factor=1.0"
FUNCTIONS = {
    "init": "comm=None, process_sets=None",
    "start_timeline": "file_path, mark_cycles=False",
    "allreduce": f"tensor, {REDUCE_COMPRESSED}",
    "grouped_allreduce": f"tensors, {REDUCE_COMPRESSED}",
    **{name: f"tensor, {REDUCE}" for name in ("allreduce_", "allreduce_async", "allreduce_async_")},
    **{f"grouped_{name}": f"tensors, {REDUCE}" for name in ("allreduce_", "allreduce_async", "allreduce_async_")},
    "sparse_allreduce_async": "tensor, name, op, set",
    **{name: "tensor, name=None, set" for name in ("allgather", "allgather_async")},
    **{name: "tensors, name=None, set" for name in ("grouped_allgather", "grouped_allgather_async")},
    **{name: "tensor, root_rank, name=None, set" for name in ("broadcast", "broadcast_", "broadcast_async", "broadcast_async_")},
    **{name: "tensor, splits=None, name=None, set" for name in ("alltoall", "alltoall_async")},
    "reducescatter": f"tensor, {SCATTER_COMPRESSED}",
    "reducescatter_async": f"tensor, {SCATTER}",
    "grouped_reducescatter": f"tensors, {SCATTER_COMPRESSED}",
    "grouped_reducescatter_async": f"tensors, {SCATTER}",
    "join": "device=-1",
    "barrier": "set",
    "poll": "handle",
    "synchronize": "handle",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
    "broadcast_parameters": "params, root_rank",
    "broadcast_optimizer_state": "optimizer, root_rank, model=None",
    "broadcast_object": "obj, root_rank=0, name=None, set",
    "allgather_object": "obj, name=None",
    "DistributedOptimizer": "optimizer, named_parameters=None, none, backward_passes_per_step=1, avg, gradient_predivide_factor=1.0, num_groups=0, "
    "groups=None, sparse_as_dense=False, set",
    **{f"{scope}{what}": "" for scope in ("", "local_", "cross_") for what in ("rank", "size")},
    **{f"{name}_built": "" for name in ("mpi", "gloo", "nccl", "ddl", "ccl", "cuda", "rocm")},
    **{name: "" for name in ("shutdown", "is_initialized", "is_homogeneous", "stop_timeline", "mpi_threads_supported", "mpi_enabled", "gloo_enabled")},
}
OTHERS = {"Average": 0, "Sum": 1, "Adasum": 2, "Min": 3, "Max": 4, "Product": 5}
CLASSES = ("Compression", "HorovodInternalError", "ProcessSet", "SyncBatchNorm")


def arguments(function):
    def text(p):
        if p.default is p.empty:
            return p.name
        if p.default is hvd.global_process_set:
            return "set"
        if p.default is hvd.Compression.none:
            return "none"
        return "avg" if p.name == "op" and p.default is hvd.Average else f"{p.name}={p.default!r}"

    return ", ".join(text(p) for p in inspect.signature(function).parameters.values())


class Names(unittest.TestCase):
    def test_names_and_arguments_are_those_of_horovod(self):
        self.assertEqual(set(hvd.__all__), {*FUNCTIONS, *OTHERS, *CLASSES, "global_process_set"})
        for name, expected in FUNCTIONS.items():
            self.assertEqual(arguments(getattr(hvd, name)), expected, name)
            self.assertTrue(getattr(hvd, name).__doc__, name)
        self.assertEqual({name: getattr(hvd, name) for name in OTHERS}, OTHERS)
        elastic = {"ElasticSampler", "HorovodInternalError", "HostsUpdatedInterrupt", "ObjectState", "State", "TorchState", "run"}
        self.assertEqual(set(hvd.elastic.__all__), elastic)

    def test_calls_before_init_are_refused(self):
        for call in (hvd.rank, hvd.local_size, hvd.is_homogeneous, hvd.barrier, hvd.join):
            for kind in (ValueError, hvd.HorovodInternalError):
                with self.assertRaisesRegex(kind, "has not been initialized"):
                    call()
        self.assertFalse(hvd.is_initialized())
        hvd.shutdown()
        for ranks in (["0"], 3, [1, 1]):
            with self.assertRaises(ValueError):
                hvd.ProcessSet(ranks)

    def test_all_ranks_find_the_same_order(self):
        def announced(*names, joining=False):
            return _requests.encode([_requests.Request(name, _requests.Call("barrier"), [], []) for name in names], joining)

        agreement = _requests.Agreement(3)
        self.assertEqual(agreement.round([announced("b", "a"), announced("a"), announced()]), ([], None))
        ready, last = agreement.round([announced(), announced("b"), announced("b", "a")])
        self.assertEqual(([name for name, _, _ in ready], last), (["b", "a"], None))
        ready, last = agreement.round([announced("c"), announced("c"), announced(joining=True)])
        self.assertEqual(([name for name, _, _ in ready], last), (["c"], None))
        self.assertEqual(agreement.round([announced(joining=True), announced(joining=True), announced(joining=True)]), ([], 1))
        self.assertEqual(agreement.joined, [])


class Jobs(JobTest):
    def job(self, text, n=2, expect=0, **how):
        path = self.folder / "program.py"
        path.write_text(BEGIN + text + '\nos.write(1, b"fine\\n")\n')
        command = [sys.executable, str(path)]
        output = self.run_command([UNISONO, "run", "-n", str(n), "--grace", "10", "--", *command] if n else command, expect, timeout=TIMEOUT, **how)
        if expect == 0:
            self.assertEqual(output.count("fine"), n or 1, output)
        return output

    def test_a_process_alone_needs_no_launcher_and_no_shutdown(self):
        self.job("""
hvd.init()
hvd.init()
assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_size()) == (0, 1, 0, 1)
assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1] and hvd.join() == 0
""", n=0)

    def test_init_works_again_after_shutdown(self):
        # Rank 1 begins again before rank 0, which serves the store, has ended.
        self.job("""
for i in range(3):
    if os.environ["RANK"] == "1":
        open(f"begins {i}", "w").close()
    hvd.init(process_sets=[hvd.ProcessSet([0])], comm=[0, 1])
    assert hvd.allreduce(torch.tensor([i + 1]), op=hvd.Sum).item() == 2 * (i + 1)
    hvd.barrier()
    while hvd.rank() == 0 and i < 2 and not os.path.exists(f"begins {i + 1}"):
        time.sleep(0.001)
    hvd.shutdown()
    assert not hvd.is_initialized() and isinstance(error_of(hvd.rank), ValueError)
    assert isinstance(error_of(hvd.allreduce, torch.ones(1)), ValueError)
    assert not torch.distributed.is_initialized()
""")

    def test_calls_run_beside_those_of_torch_distributed(self):
        self.job("""
import torch.distributed as dist, unisono.torch
dist.init_process_group("unisono")
assert isinstance(error_of(hvd.init, [0]), ValueError)
hvd.init(process_sets="dynamic")
handles = []
for i in range(50):
    handles.append(hvd.allreduce_async(torch.tensor([i]), op=hvd.Sum))
    x = torch.tensor([i + dist.get_rank()])
    dist.all_reduce(x)
    assert x.item() == 2 * i + 1
assert [hvd.synchronize(h).item() for h in handles] == [2 * i for i in range(50)]
hvd.barrier()
hvd.shutdown()
dist.barrier()
dist.destroy_process_group()
""")

    def test_init_reads_the_variables_of_mpirun(self):
        self.job("""
for theirs in ("RANK", "LOCAL_RANK"):
    os.environ["OMPI_COMM_WORLD_" + theirs] = os.environ.pop(theirs)
os.environ["OMPI_COMM_WORLD_SIZE"] = os.environ.pop("WORLD_SIZE")
hvd.init()
assert hvd.size() == 2 and hvd.local_rank() == hvd.rank()
assert hvd.allgather(torch.tensor([hvd.rank()])).tolist() == [0, 1]
hvd.barrier()
""")

    def test_a_killed_rank_is_an_internal_error_of_the_others(self):
        output = self.job("""
hvd.init()
hvd.allreduce(torch.ones(1))
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
error = error_of(hvd.allreduce, torch.ones(1))
assert isinstance(error, hvd.HorovodInternalError) and "rank 1" in str(error), error
assert isinstance(error_of(hvd.allreduce, torch.ones(1)), hvd.HorovodInternalError)
os.write(1, b"found it\\n")
""", expect=None)
        self.assertIn("found it", output)

    def test_shutdown_fails_calls_that_are_not_done(self):
        self.job("""
hvd.init()
hvd.barrier()
if hvd.rank() == 0:
    handle = hvd.allreduce_async(torch.ones(1), name="one")
    time.sleep(1)
    hvd.shutdown()
    assert "shut down" in str(error_of(hvd.synchronize, handle))
else:
    time.sleep(2)
    assert isinstance(error_of(hvd.allreduce, torch.ones(1), name="two"), hvd.HorovodInternalError)
""")

    def test_a_stalled_call_says_who_is_missing(self):
        output = self.job("""
hvd.init()
hvd.barrier()
if hvd.rank() == 1:
    time.sleep(4)
hvd.allreduce(torch.ones(1), name="late")
hvd.barrier()
""", HOROVOD_STALL_CHECK_TIME_SECONDS="1")
        self.assertRegex(output, r"allreduce.late has waited 1 s: rank 1 has not called it")


if __name__ == "__main__":
    unittest.main(verbosity=2)
