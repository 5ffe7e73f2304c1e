"""unisono.ignite: its names and what it computes beside ignite.distributed, and what it does better. Starts its own jobs."""

import contextlib
import importlib
import importlib.util
import inspect
import json
import os
import shutil
import sys
import tempfile
import unittest
import warnings
from datetime import timedelta
from pathlib import Path
from unittest import mock

from covers import covers
from jobs import UNISONO, JobTest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("unisono.torch") is None:
    print("skipped: the package torch or unisono-torch is missing")
    raise SystemExit(0)

import torch

import unisono
import unisono.ignite as idist
from unisono.ignite import _frames, _meeting, _nodes, _slurm
from unisono.ignite.comp_models.base import ComputationModel, _SerialModel

SIDES = str(Path(__file__).with_name("ignite_sides.py"))
ORIGINAL, OURS = "ignite.distributed", "unisono.ignite"
needs_original = unittest.skipIf(importlib.util.find_spec("ignite") is None, "the package pytorch-ignite is missing")


class Names(unittest.TestCase):
    @needs_original
    def test_every_public_name_of_the_original_is_there(self):
        for module in ("", ".utils", ".auto", ".launcher", ".comp_models"):
            theirs, ours = importlib.import_module(ORIGINAL + module), importlib.import_module(OURS + module)
            names = getattr(theirs, "__all__", None) or [name for name in vars(theirs) if not name.startswith("_") and name != "annotations"]
            missing = {name for name in names if not hasattr(ours, name)} - {"TYPE_CHECKING"}
            self.assertEqual(missing, set(), module)

    @needs_original
    def test_arguments_have_the_same_names_order_and_defaults(self):
        theirs = importlib.import_module(ORIGINAL)
        for name in (name for name in vars(theirs) if inspect.isfunction(getattr(theirs, name)) or inspect.isclass(getattr(theirs, name))):
            original = list(inspect.signature(getattr(theirs, name)).parameters.values())
            mine = [p for p in inspect.signature(getattr(idist, name)).parameters.values()]
            for i, parameter in enumerate(p for p in original if p.kind is not p.VAR_KEYWORD):
                self.assertEqual((mine[i].name, mine[i].default), (parameter.name, parameter.default), f"{name}, argument {i}")

    def test_every_function_is_documented(self):
        for name in idist.utils.__all__ + idist.auto.__all__:
            if callable(getattr(idist, name)):
                self.assertTrue(getattr(idist, name).__doc__, name)

    @covers("I-05", "I-46", "I-47", "B-04")
    def test_models_and_backends_are_listed(self):
        has_xla = importlib.util.find_spec("torch_xla") is not None
        names = ["serial", "native-dist", *(["xla-dist"] if has_xla else []), "horovod-dist"]
        self.assertEqual([kind.name for kind in idist.registered_computation_models], names)
        backends = idist.available_backends()
        self.assertEqual((backends[:2], backends[-1], "xla-tpu" in backends), (("unisono", "gloo"), "horovod", has_xla))
        self.assertEqual("mpi" in backends, unisono.is_backend_available("mpi"))
        self.assertEqual((idist.has_native_dist_support, idist.has_xla_support, idist.has_hvd_support), (True, has_xla, True))


class Alone(unittest.TestCase):
    @covers("K-27", "K-31")
    def test_calls_are_checked_as_in_a_job(self):
        for call in (lambda: idist.all_reduce(1, "ABC"), lambda: idist.all_reduce(1, group="abc"), lambda: idist.broadcast(1, src=3)):
            self.assertRaises(ValueError, call)
        self.assertRaises(TypeError, idist.all_reduce, "text")
        self.assertRaises(ValueError, idist.broadcast, None)
        self.assertRaises(ValueError, idist.new_group, [0, 0])
        self.assertRaises(ValueError, idist.one_rank_only(rank=1)(print))
        self.assertRaisesRegex(ValueError, "Backend should be one of", idist.initialize, "abc")

    @covers("K-28", "K-71")
    def test_results_are_as_in_a_job(self):
        x = torch.tensor(2.5)
        self.assertEqual(idist.all_gather(x).shape, (1,))
        y = torch.ones(2)
        self.assertNotEqual(idist.all_gather(y).data_ptr(), y.data_ptr())
        self.assertIs(idist.all_reduce(y, "avg"), y)
        self.assertEqual((idist.all_reduce(3), idist.all_gather("a"), idist.all_gather(True)), (3, ["a"], [True]))
        self.assertIs(idist.all_reduce(True), True)

    @covers("K-34", "K-35", "I-39", "I-42", "B-09", "B-10", "B-11")
    def test_initialize_alone_forms_a_group_of_one(self):
        before = dict(os.environ)
        idist.initialize("gloo")
        try:
            self.assertEqual((idist.backend(), idist.model_name(), idist.get_world_size()), ("gloo", "native-dist", 1))
            self.assertRaises(RuntimeError, idist.initialize, "gloo")
            self.assertEqual(torch.distributed.get_backend(), "unisono")
        finally:
            idist.finalize()
        self.assertEqual(dict(os.environ), before)
        self.assertEqual(idist.backend(), None)

    @contextlib.contextmanager
    def group(self, backend="unisono", **how):
        """A group of one that the program forms itself."""
        torch.distributed.init_process_group(backend, **(how or {"store": torch.distributed.HashStore(), "rank": 0, "world_size": 1}))
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()

    @covers("K-45", "I-01", "I-02", "B-08")
    def test_a_group_that_the_program_forms_is_found(self):
        with self.group():
            self.assertEqual((idist.model_name(), idist.backend(), idist.get_nnodes()), ("native-dist", "unisono", 1))
            idist.finalize()
            self.assertTrue(torch.distributed.is_initialized())
        self.assertEqual(idist.model_name(), "serial")
        self.addCleanup(idist.sync, temporary=True)
        idist.sync()  # from here on it is serial until the next sync
        with self.group():
            self.assertEqual(idist.model_name(), "serial")
            idist.sync()
            self.assertEqual(idist.model_name(), "native-dist")

    @covers("TS-41", "TS-42")
    def test_groups_meet_in_every_store(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        dist = torch.distributed
        stores = [dist.HashStore(), dist.FileStore(f"{folder}/a", 1), dist.TCPStore("127.0.0.1", 0, 1, True), dist.PrefixStore("p", dist.HashStore())]
        for store in stores:
            with self.group(store=store, rank=0, world_size=1):
                self.assertEqual(idist.all_gather("é"), ["é"])
            store.set("key", "value")
            self.assertEqual((store.get("key"), store.add("n", 2), store.add("n", 3), store.compare_set("key", "value", "b")), (b"value", 2, 5, b"b"))
            self.assertRaises(RuntimeError, store.wait, ["never"], timedelta(milliseconds=20))
        dist.register_rendezvous_handler("unisono-test", lambda url, **_: iter([(dist.HashStore(), 0, 1)]))
        with self.group(init_method="unisono-test://here"):
            self.assertEqual(idist.all_gather("é"), ["é"])
        self.assertRaises(RuntimeError, dist.register_rendezvous_handler, "unisono-test", None)
        self.assertRaises(RuntimeError, dist.init_process_group, "unisono", init_method="unisono-unknown://here")

    @covers("I-38", "I-52", "B-06")
    def test_the_local_rank_is_the_launchers_or_the_programs(self):
        self.addCleanup(idist.set_local_rank, None)
        for environment, told in (({}, 3), ({"LOCAL_RANK": "2"}, 2), ({"SLURM_JOB_ID": "1", "SLURM_LOCALID": "1"}, 1)):
            idist.set_local_rank(3)
            with mock.patch.dict(os.environ, environment), self.group():
                self.assertEqual(idist.get_local_rank(), told)
        idist.set_local_rank(None)
        with self.group():  # counted among the processes of this host
            self.assertEqual(idist.get_local_rank(), 0)
        with mock.patch.dict(os.environ, {"LOCAL_RANK": "-1"}), self.group():
            self.assertRaises(ValueError, idist.get_local_rank)

    @covers("I-43")
    def test_the_configuration_is_ten_lines(self):
        with self.assertLogs("unisono.ignite.utils.show_config", "INFO") as logs:
            idist.show_config()
        expected = ["distributed configuration: serial", "backend: None", f"device: {idist.device().type}", f"hostname: {idist.hostname()}", "world size: 1",
                    "rank: 0", "local rank: 0", "num processes per_node: 1", "num nodes: 1", "node rank: 0"]
        self.assertEqual([record.getMessage() for record in logs.records], expected)

    @covers("I-48")
    def test_a_model_of_the_programs_own_may_be_derived(self):
        class Doubling(_SerialModel):
            """A reduction adds this rank's tensor once more, in float64."""

            _collective_op_dtype = torch.float64

            def _do_all_reduce(self, tensor, op, group=None):
                assert (tensor.dtype, op) == (torch.float64, "SUM")
                tensor += tensor

        x = torch.tensor([1, 2])
        self.assertIs(Doubling().all_reduce(x), x)
        self.assertEqual((x.tolist(), x.dtype, Doubling().all_reduce(4)), ([2, 4], torch.int64, 8))
        self.assertRaises(TypeError, ComputationModel)
        self.assertEqual({"get_rank", "device", "backend", "spawn", "_do_all_reduce"} - ComputationModel.__abstractmethods__, set())

    @covers("K-79", "I-40", "B-05")
    def test_wrong_arguments_of_initialize_are_refused(self):
        for how in ({"rank": 0, "world_size": 2}, {"init_method": "env://", "rank": 0}, {"init_method": "tcp://nowhere", "rank": 0, "world_size": 1}):
            self.assertRaises(ValueError, idist.initialize, "gloo", **how)
        with self.assertRaisesRegex(TypeError, "nonsense"):
            idist.initialize("gloo", nonsense=5)
        self.assertFalse(torch.distributed.is_initialized())

    @covers("A-60", "A-61", "A-62", "A-63", "A-64", "A-65", "A-66", "A-67")
    def test_wrong_arguments_of_parallel_are_refused(self):
        for how in (
            {"backend": "abc"},
            {"nnodes": 2},
            {"timeout": 2},
            {"start_method": "fork"},
            {"backend": "gloo", "nproc_per_node": -1},
            {"backend": "gloo", "nproc_per_node": 1, "nnodes": -1},
            {"backend": "gloo", "nproc_per_node": 1, "nnodes": 2},
            {"backend": "gloo", "nproc_per_node": 1, "nnodes": 2, "node_rank": 2},
            {"backend": "gloo", "nproc_per_node": 1, "nnodes": 2, "node_rank": 1},
        ):
            self.assertRaises(ValueError, idist.Parallel, **how)
        self.assertWarns(UserWarning, idist.Parallel, backend="gloo", nnodes=2)
        self.assertWarns(UserWarning, idist.Parallel, backend="gloo", start_method="fork")
        for backend in ({}, {"backend": "gloo"}, {"backend": "gloo", "nproc_per_node": 1}):
            with self.assertRaisesRegex(TypeError, "no_such"):
                idist.Parallel(**backend, no_such=3)
        with idist.Parallel() as parallel:
            self.assertEqual(parallel.run(lambda local_rank, a, b: (local_rank, a, b), 1, b=2), [(0, 1, 2)])

    @covers("K-42", "A-27")
    def test_a_sampler_that_yields_nothing_is_an_error_and_others_are_shared_out(self):
        class Empty(torch.utils.data.Sampler):
            def __len__(self):
                return 4

            def __iter__(self):
                return iter(())

        self.assertRaises(RuntimeError, lambda: list(idist.DistributedProxySampler(Empty(), 2, 0)))
        wrapped = torch.utils.data.RandomSampler(range(11))
        torch.manual_seed(1)
        expected = torch.rand(1)
        torch.manual_seed(1)
        parts = [list(idist.DistributedProxySampler(wrapped, 3, rank, seed=5)) for rank in range(3)]
        self.assertEqual(torch.rand(1), expected)
        self.assertEqual(set(sum(parts, [])), set(range(11)))
        sampler = idist.DistributedProxySampler(wrapped, 3, 0)
        list(sampler)
        with self.assertWarns(UserWarning):
            list(sampler)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sampler.set_epoch(1)
            list(sampler)


class Places(unittest.TestCase):
    @covers("N-01", "N-02", "N-03", "K-32", "I-10", "I-11", "I-12", "B-07")
    def test_ranks_are_counted_by_host(self):
        def of(hosts, local=None):
            entries = [(host, None, None if local is None else local[i]) for i, host in enumerate(hosts)]
            return [(p.local_rank, p.node_rank, p.nproc_per_node, p.nnodes) for p in _nodes.places(entries)]

        self.assertEqual(of("aabb"), [(0, 0, 2, 2), (1, 0, 2, 2), (0, 1, 2, 2), (1, 1, 2, 2)])
        self.assertEqual(of("aaab"), [(0, 0, 3, 2), (1, 0, 3, 2), (2, 0, 3, 2), (0, 1, 1, 2)])
        self.assertEqual(of("abab"), [(0, 0, 2, 2), (0, 1, 2, 2), (1, 0, 2, 2), (1, 1, 2, 2)])
        self.assertEqual(of("aaaa", [0, 1, 0, 1]), [(0, 0, 2, 2), (1, 0, 2, 2), (0, 1, 2, 2), (1, 1, 2, 2)])

    @covers("K-47", *(f"H-{row:02}" for row in range(1, 17)))
    def test_host_lists_of_slurm_are_expanded(self):
        for text, hosts in {
            "localhost": "localhost",
            "compute!:b24_[1-2].r": "compute!:b24_1.r compute!:b24_2.r",
            "c1001a-s[11,17]": "c1001a-s11 c1001a-s17",
            "c1009a-s17,c1010a-s11": "c1009a-s17 c1010a-s11",
            "machine2-[02-4]vm1": "machine2-02vm1 machine2-03vm1 machine2-04vm1",
            "machine2-[02-3]vm1, machine4-[0003-5].vml2": "machine2-02vm1 machine2-03vm1 machine4-0003.vml2 machine4-0004.vml2 machine4-0005.vml2",
            "machine2-[009-11]vm1": "machine2-009vm1 machine2-010vm1 machine2-011vm1",
            "node[3,1-2]": "node3 node1 node2",
            "n[0]": "n0",
            "n[099-101]": "n099 n100 n101",
            "a[1-2]b[3-4]": "a1b3 a1b4 a2b3 a2b4",
            "[]": "",
        }.items():
            self.assertEqual(_slurm.expand_hostlist(text), hosts.split(), text)
        self.assertEqual(_slurm.expand_hostlist("node[18-19,1-2]", sort=True), ["node1", "node2", "node18", "node19"])
        for text in ("invalid[]", "n[3-1]", "n[1-2-3]", "n[1,]", "n[1-3", "n]"):
            self.assertRaises(ValueError, _slurm.expand_hostlist, text)

    @covers("S-01", "S-02", "S-03", "S-04", "S-05", "S-06", "S-07", "S-08", "K-36", "B-05")
    def test_the_place_is_read_from_the_variables_of_slurm(self):
        slurm = dict(zip(_slurm.NEEDED, ("12345", "1", "1", "2", "c1", "1")))
        place = _meeting.from_environment(slurm)
        self.assertEqual((place.rank, place.local_rank, place.world_size, place.host, place.port), (1, 1, 2, "127.0.0.1", 17345))
        self.assertEqual(_meeting.from_environment(slurm | {"SLURM_JOB_NUM_NODES": "2"}).host, "c1")
        self.assertEqual(_meeting.from_environment(slurm | {"SLURM_JOB_ID": "12_3"}).port, 15012)
        self.assertEqual(_meeting.from_environment(slurm | {"SLURM_JOB_ID": "120000"}).port, 15000)
        five = {"RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "8", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "2233"}
        self.assertEqual(_meeting.from_environment(slurm | five).port, 2233)
        self.assertRaises(RuntimeError, _meeting.from_environment, slurm | five | {"SLURM_JOB_NUM_NODES": "2"})
        self.assertRaises(RuntimeError, _meeting.from_environment, slurm | {k: "0" if k == "RANK" else v for k, v in five.items()})
        with self.assertWarns(UserWarning):
            _meeting.from_environment(slurm | {"RANK": "1"})
        script = slurm | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}
        with self.assertWarnsRegex(UserWarning, "waits for 3 others.*`srun` or `unisono run`"):
            _meeting.from_environment(script)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _meeting.from_environment(script | {"SLURM_STEP_ID": "0"})
        self.assertRaises(RuntimeError, _meeting.from_environment, {"SLURM_JOB_ID": "1"})
        self.assertRaises(RuntimeError, _meeting.from_environment, slurm | {"SLURM_JOB_NODELIST": "[]"})
        self.assertRaises(ValueError, _meeting.meeting, "env://", 0, 1, slurm)
        self.assertRaises(RuntimeError, _meeting.from_environment, {"RANK": "0", "WORLD_SIZE": "1"})

    @covers("K-22", "K-24", "K-38", "I-49", "I-50", "I-51")
    def test_values_of_every_kind_pass_through_frames(self):
        for value in (True, False, 0, -1, 1 << 80, 16777217, 0.1, 1 - 2j, "", "é" * 500, "\ud800", Path("/a/é"), [1, {"b": None}], None):
            kind, payload = _frames.encode(value)
            (told,) = _frames.gather(kind, payload, lambda x: x.clone())
            back = _frames.decode(*told)
            self.assertEqual((type(back), back), (type(value), value))
            self.assertEqual(_frames.decode(*_frames.broadcast(kind, payload, True, lambda x: x)), value)
        self.assertRaises(RuntimeError, _frames.decode, _frames.TENSOR, b'["__import__", []]')


class Sides(JobTest):
    """The same program over the original (on gloo) and over ours."""

    def sides(self, n, mode=(), ranks=None):
        program = [sys.executable, "-W", "ignore", SIDES, str(self.folder), *mode]
        self.run_command(program if n == 1 else [UNISONO, "run", "-n", str(n), "--", *program], timeout=600)
        lines = [[(self.folder / module / f"{rank}.json").read_text().splitlines() for rank in range(ranks or n)] for module in (ORIGINAL, OURS)]
        return [[[json.loads(line) for line in its] for its in side] for side in lines]

    def compare(self, n):
        for rank, ((theirs,), (ours,)) in enumerate(zip(*self.sides(n))):
            for where in ("alone", "job"):
                self.assertEqual(theirs[where].keys(), ours[where].keys())
                self.assertGreater(len(theirs[where]), 50)
                for name in theirs[where]:
                    self.assertEqual(theirs[where][name], ours[where][name], f"rank {rank}, {where}: {name}")

    @needs_original
    def test_one_process_computes_what_the_original_does(self):
        self.compare(1)

    @needs_original
    @covers(*(f"I-{row:02}" for row in (*range(3, 14), *range(21, 29), 30, 31, 32, 34, 35, 36, 37, 39, 42, 44, 45)))
    @covers("A-01", "A-31", "A-33", "A-50", "B-01", "B-02", "B-03", "B-06", "B-13", "B-14", "B-15", "B-16", "B-17", "B-18", "B-19", "B-20", "B-26")
    def test_two_processes_compute_what_the_original_does(self):
        self.compare(2)

    @needs_original
    def test_spawn_and_parallel_do_what_the_original_does(self):
        theirs, ours = self.sides(1, ["spawn"], ranks=2)
        self.assertEqual(theirs, ours)
        self.assertEqual([len(lines) for lines in ours], [2, 2])

    @needs_original
    def test_parallel_in_a_job_does_what_the_original_does(self):
        theirs, ours = self.sides(2, ["parallel"])
        self.assertEqual(theirs, ours)


if __name__ == "__main__":
    unittest.main(verbosity=2)
