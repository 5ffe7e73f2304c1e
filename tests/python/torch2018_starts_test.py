"""unisono.torch2018: how processes join and leave. Starts its own jobs."""

import sys
import textwrap
import unittest

from covers import covers
from torch2018_programs import BEGIN, Jobs, free_port


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

    @covers("T-05", "T-08", "T-41")
    def test_the_environment_says_where_and_who(self):
        port = free_port()
        self.alone(f"""
        init = dist.init_process_group
        refused(RuntimeError, "rank is not set but it is required for env:// init method", init, "tcp", world_size=2)
        refused(RuntimeError, "world_size is not set but it is required for env:// init method", init, "tcp", rank=0)
        refused(RuntimeError, "failed to read the MASTER_PORT environmental variable", init, "tcp", rank=0, world_size=2)
        os.environ.update(MASTER_PORT="1", RANK="one")
        refused(RuntimeError, "RANK is no number: one", init, "tcp", world_size=2)
        del os.environ["RANK"]
        for r in range(2):  # rank 0 as well: where it listens by itself, other hosts may not reach it
            refused(RuntimeError, "failed to read the MASTER_ADDR environmental variable", init, "tcp", rank=r, world_size=2)
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

    @covers("T-10", "T-11", "T-12")
    def test_a_program_may_leave_and_join_by_the_names_of_unisono_and_begin_again(self):
        self.alone("""
        def begin(): dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/f", rank=0, world_size=1)
        def nothing_is_left():
            assert not dist.is_initialized() and (dist._initialized, dist._backend) == (0, dist.dist_backend.UNDEFINED)
            for call in (dist.get_rank, dist.barrier, dist.new_group, lambda: dist.barrier(group), lambda: dist.barrier(0)):
                refused(AssertionError, "", call)
            refused(RuntimeError, "needs to be initialized first", dist._register_stream, None)
        begin()
        group = dist.new_group()
        dist.barrier(group)
        unisono.finalize()
        nothing_is_left()
        begin()                     # the numbers of groups begin again
        refused(RuntimeError, "is none that new_group has returned", dist.barrier, group)
        assert dist.new_group() == group
        dist.barrier(group)
        unisono.finalize()
        unisono.initialize()        # another world, of which this module knows nothing
        nothing_is_left()
        refused(unisono.AlreadyInitialized, "", begin)
        unisono.finalize()
        begin()
        total(1)
        dist.destroy_process_group()
        nothing_is_left()
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
