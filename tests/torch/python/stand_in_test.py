"""UNISONO_STAND_IN=gloo: programs that name gloo, and import torch alone, get unisono on the cpu. Each test starts ranks of its own."""

import os
import sys
import textwrap
import unittest

import jobs

BEGIN = """
import datetime, os, re, sys, warnings
from unittest import mock
import torch, torch.distributed as dist
torch.set_num_threads(1)
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
cpu, cuda = torch.device("cpu"), torch.device("cuda")
def begin(backend="gloo", place="", **how):
    how = {"timeout": datetime.timedelta(seconds=60)} | how
    dist.init_process_group(backend, init_method=os.environ["MEETING"] + place, rank=rank, world_size=size, **how)
def error_of(f):
    try:
        f()
    except Exception as error:
        return error
    raise AssertionError("it went well")
def check(group=None, backend="gloo", ours=True):
    import unisono.torch
    assert unisono.torch.is_unisono(group) == ours, group
    assert dist.get_backend(group) == backend, dist.get_backend(group)
    group = group or dist.group.WORLD
    assert (group.name(), group._get_backend_name(), group._get_backend(cpu).name()) == ("gloo",) * 3, group.name()
    assert isinstance(group._get_backend(cpu), dist.ProcessGroupGloo) != ours
    members = dist.get_process_group_ranks(group)
    x = torch.arange(3.0) + rank
    dist.all_reduce(x, group=group)
    assert x.equal(torch.arange(3.0) * len(members) + sum(members)), x
    everybody = [None] * len(members)
    dist.all_gather_object(everybody, rank, group=group)
    assert everybody == members, everybody
def fine():
    os.write(1, f"rank {rank} of {size} is fine\\n".encode())
"""


class StandInTest(jobs.JobTest):
    """Programs of torch alone, in an environment in which unisono is installed as pip installs it: `import torch` finds its entry point."""

    variables = {"UNISONO_STAND_IN": "gloo"}

    def setUp(self):
        super().setUp()
        self.added = dict(self.variables)
        information = self.folder / "packages" / "unisono_torch-0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: unisono-torch\nVersion: 0\n")
        (information / "entry_points.txt").write_text("[torch.backends]\nunisono = unisono.torch:register\n")

    def plain_environment(self):
        environment = {name: value for name, value in super().plain_environment().items() if name != "UNISONO_STAND_IN"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(self.folder / "packages"), environment.get("PYTHONPATH")]))
        return environment | self.added

    def program(self, text):
        path = self.folder / "program.py"
        path.write_text(BEGIN + textwrap.dedent(text))
        return str(path)

    def all_fine(self, text, n=2):
        self.fine("".join(self.ranks(textwrap.dedent(text) + "\nif __name__ == \"__main__\":\n    fine()\n", n)), n)

    def alone(self, text, expect=0):
        return self.run_command([sys.executable, self.program(text)], expect=expect)


class Ways(StandInTest):
    def test_the_default_group_is_ours_by_every_name_of_gloo(self):
        self.all_fine("""
        for place, name in enumerate(["gloo", "GLOO", dist.Backend.GLOO, None, "cpu:gloo", "cpu:gloo,cuda:gloo"]):
            begin(name, str(place))
            check(backend="undefined" if name is None else name.lower())
            assert dist.get_backend_config().startswith("cpu:gloo"), dist.get_backend_config()
            assert not dist.group.WORLD._has_hooks()
            dist.destroy_process_group()
        """)

    def test_the_backend_of_another_device_stays(self):
        # PyTorch takes two backends of one type for one, and that of a plug-in is of the type that ours would have.
        self.all_fine("""
        from torch.testing._internal.distributed import fake_pg
        begin("cpu:gloo,cuda:fake")
        check(backend="cpu:gloo,cuda:fake")
        assert dist.get_backend_config() == "cpu:gloo,cuda:fake"
        assert type(dist.group.WORLD._get_backend(cuda)) is not type(dist.group.WORLD._get_backend(cpu))
        assert "nccl" in dist.distributed_c10d.BackendConfig(dist.Backend("cpu:gloo,cuda:nccl")).get_device_backend_map().values()
        if not dist.is_nccl_available():
            dist.destroy_process_group()
            error = error_of(lambda: begin("cpu:gloo,cuda:nccl", "2"))
            assert "NCCL built in" in str(error), error
        """)

    def test_groups_that_name_gloo_are_ours(self):
        self.all_fine("""
        begin()
        check()
        for how in ({"backend": "gloo"}, {"backend": dist.Backend.GLOO}, {}, {"ranks": [1, 0], "backend": "gloo", "sort_ranks": False}):
            check(dist.new_group(**how))
        check(dist.new_group(backend="cpu:gloo"), "cpu:gloo")
        alone = [dist.new_group([r], backend="gloo") for r in range(size)][rank]
        check(alone)
        mine, _ = dist.new_subgroups(1, backend="gloo")
        check(mine)
        assert dist.distributed_c10d.BackendConfig("gloo").get_device_backend_map()["cpu"] == "gloo"  # what a program asks between groups
        """)

    def test_a_group_that_names_gloo_is_ours_beside_another_backend(self):
        self.all_fine("""
        begin("unisono")
        check(dist.new_group(backend="gloo"))
        assert dist.get_backend() == "unisono" and dist.group.WORLD._get_backend(cpu).name() == "unisono"
        assert dist.group.WORLD.name() == "custom"
        """)

    def test_split_group_makes_groups_of_ours(self):
        self.all_fine("""
        import unisono.torch
        begin()
        half = dist.group.WORLD.split_group([0, 1], group_name="both", group_desc="of a split")
        assert unisono.torch.is_unisono(half) and half.name() == "gloo"
        x = torch.ones(3) + rank
        half.allreduce([x]).wait()
        assert x.tolist() == [3, 3, 3], x
        # split_group asks for a device that the whole group is bound to: this machine is told to have one.
        dist.destroy_process_group()
        with mock.patch("torch.cuda.device_count", lambda: 1):
            begin(place="2")
        dist.group.WORLD.bound_device_id = torch.device("cuda", 0)
        with mock.patch("torch.accelerator.is_available", lambda: True), mock.patch("torch.accelerator.current_accelerator", lambda: cuda):
            options = dist.group.WORLD._get_backend(cuda).options  # PyTorch cannot copy gloo's by itself
            half = dist.split_group(split_ranks=[[0, 1]], timeout=datetime.timedelta(seconds=60), pg_options=options)
        check(half)
        """)

    def test_groups_of_a_device_mesh_are_ours(self):
        self.all_fine("""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        begin()
        mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
        for group in mesh.get_all_groups():
            check(group)
        whole = torch.arange(6.0).reshape(2, 3)
        assert distribute_tensor(whole, mesh["dp"], [Shard(0)]).redistribute(placements=[Replicate()]).to_local().equal(whole)
        assert distribute_tensor(whole, mesh["dp"], [Shard(0)]).sum().full_tensor().item() == 15
        from torch.distributed import _functional_collectives as functional
        assert functional.all_reduce(torch.ones(2) + rank, "sum", mesh["dp"]).tolist() == [3, 3]
        """)

    def test_a_mesh_makes_the_default_group(self):
        self.added["PORT"] = str(self.held_port())
        self.all_fine("""
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["PORT"])
        mesh = dist.init_device_mesh("cpu", (2,))
        check(mesh.get_group(), backend="undefined")
        """)

    def test_checkpoints_are_saved_and_loaded_by_ours(self):
        self.added["PORT"] = str(self.held_port())
        self.all_fine("""
        import torch.distributed.checkpoint as checkpoint
        if __name__ == "__main__":
            begin()
            folder = os.environ["MEETING"].removeprefix("file://") + ".checkpoint"
            group = dist.new_group(backend="gloo")
            check(group)
            state = {"x": torch.arange(4.0), "step": 3}
            checkpoint.save(state, checkpoint_id=folder + "1", process_group=group)
            checkpoint.async_save(state, checkpoint_id=folder + "2", process_group=group).result()
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["PORT"])
            by_process = checkpoint.state_dict_saver.AsyncCheckpointerType.PROCESS
            checkpoint.async_save(state, checkpoint_id=folder + "3", process_group=group, async_checkpointer_type=by_process).result()
            for place in "123":
                found = {"x": torch.zeros(4), "step": 0}
                checkpoint.load(found, checkpoint_id=folder + place, process_group=group)
                assert found["x"].equal(state["x"]) and found["step"] == 3, found
        """)

    def test_groups_of_the_experimental_interface_are_ours(self):
        self.added["PORT"] = str(self.held_port())
        self.all_fine("""
        try:
            from torch.distributed import _dist2
        except ImportError:
            fine()
            sys.exit()
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["PORT"])
        import unisono.torch
        group = _dist2.new_group("gloo", timeout=datetime.timedelta(seconds=60), device="cpu")
        assert unisono.torch.is_unisono(group) and group.name() == "gloo"
        x = torch.ones(2) + rank
        group.allreduce([x]).wait()
        assert x.tolist() == [3, 3], x
        """)


class Behaviour(StandInTest):
    def test_code_written_for_gloo_works(self):
        self.all_fine("""
        begin()
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=45))
        before = dist.group.WORLD._get_sequence_number_for_group()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            dist.all_reduce(torch.ones(2))
        assert dist.group.WORLD._get_sequence_number_for_group() == before + 1
        assert "gloo:all_reduce" in {event.name for event in profile.events()}
        """)

    def test_a_shorter_timeout_counts(self):
        self.all_fine("""
        begin(timeout=datetime.timedelta(seconds=3000))
        dist.barrier()
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=1))
        if rank == 0:
            error = error_of(lambda: dist.all_reduce(torch.ones(2)))
            assert "Timed out" in str(error) and "rank 1" in str(error), error
            open(sys.argv[0] + ".done", "w").close()
        import time
        while not os.path.exists(sys.argv[0] + ".done"):
            time.sleep(0.05)
        """)

    def test_distributed_data_parallel_averages_the_gradients(self):
        self.all_fine("""
        begin()
        torch.manual_seed(rank)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
        model(torch.full((3, 4), 1.0 + rank)).sum().backward()
        gradient = model.module.weight.grad
        assert gradient.eq(4.5).all(), gradient  # the mean of 3 and 6
        assert "gloo_num_threads" not in model._get_ddp_logging_data()  # what C++ reads of a gloo group alone
        """)

    def test_every_call_is_checked_as_on_gloo(self):
        self.added["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        self.all_fine("""
        import unisono.torch
        begin()
        assert unisono.torch.is_unisono() and dist.get_backend() == "gloo" and dist.group.WORLD.name() == "gloo"
        x = torch.ones(2) + rank
        dist.all_reduce(x)
        assert x.tolist() == [3, 3], x
        error = error_of(lambda: dist.all_reduce(torch.ones(2 + rank)))
        assert "Detected mismatch" in str(error), error
        """)

    def test_gloo_serves_the_devices_that_it_would(self):
        # One rank has a device: gloo itself serves devices on both, and unisono the cpu.
        self.all_fine("""
        with mock.patch("torch.cuda.device_count", lambda: rank):
            begin()
        check()
        assert isinstance(dist.group.WORLD._get_backend(cuda), dist.ProcessGroupGloo)
        dist.destroy_process_group()
        begin(place="2")
        assert not isinstance(dist.group.WORLD._get_backend(cuda), dist.ProcessGroupGloo)
        """)

    def test_a_dead_rank_is_named(self):
        outputs = self.ranks("""
        import signal
        begin()
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        error = error_of(lambda: dist.all_reduce(torch.ones(2)))
        assert "rank 1" in str(error) and "SIGKILL" in str(error), error
        fine()
        """, expect=[0, -9])
        self.assertIn("rank 0 of 2 is fine", outputs[0])

    def test_is_unisono_refuses_what_is_no_group(self):
        self.alone("""
        import unisono.torch
        assert isinstance(error_of(unisono.torch.is_unisono), ValueError)
        begin_alone = dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        assert isinstance(error_of(lambda: unisono.torch.is_unisono(dist.GroupMember.NON_GROUP_MEMBER or 0)), TypeError)
        assert unisono.torch.is_unisono()
        """)


class Variable(StandInTest):
    def test_gloo_is_gloo_without_the_variable(self):
        for number, value in enumerate((None, "")):
            self.added = {} if value is None else {"UNISONO_STAND_IN": value}
            self.all_fine(f"""
            c10d = dist.distributed_c10d
            assert "unisono" in dist.Backend.backend_list  # the entry point was loaded
            assert "unisono.torch._stand_in" not in sys.modules and "unisono.torch._extension" not in sys.modules
            for function in (c10d._new_process_group_helper, c10d.BackendConfig.get_device_backend_map, c10d._set_pg_timeout):
                assert function.__code__.co_filename == c10d.__file__, function
            assert not hasattr(dist.ProcessGroup.name, "__code__")
            begin(place="{number}")
            check(ours=False)
            dist.destroy_process_group()  # one process in ten aborts when it ends with a group of gloo
            """)

    def test_an_unknown_value_is_refused(self):
        self.added["UNISONO_STAND_IN"] = "mpi"
        output = self.alone("", expect=1)
        self.assertIn('ValueError: UNISONO_STAND_IN=mpi is unknown; it is "gloo"', output)

    def test_a_pytorch_that_makes_groups_in_another_way_is_refused(self):
        self.added["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        self.alone("""
        del dist.distributed_c10d.BackendConfig.get_device_backend_map
        error = error_of(lambda: __import__("unisono.torch"))
        assert isinstance(error, RuntimeError) and torch.__version__ in str(error), repr(error)
        assert "has no BackendConfig.get_device_backend_map" in str(error) and 'name the backend "unisono"' in str(error), error
        """)
        self.alone("""
        original = dist.distributed_c10d._new_process_group_helper
        dist.distributed_c10d._new_process_group_helper = lambda *args, **kwargs: original(*args, **kwargs)
        error = error_of(lambda: __import__("unisono.torch"))
        assert "does not ask a BackendConfig" in str(error), error
        """)

    def test_a_gloo_group_that_was_made_all_the_same_is_an_error(self):
        self.alone("""
        c10d = dist.distributed_c10d
        c10d.BackendConfig.get_device_backend_map = c10d.BackendConfig.get_device_backend_map.__wrapped__
        error = error_of(lambda: dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1))
        assert isinstance(error, RuntimeError) and "has made a group of gloo in a way of its own" in str(error), repr(error)
        """)


if __name__ == "__main__":
    unittest.main(verbosity=2)
