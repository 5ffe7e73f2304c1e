"""unisono.ignite's backends by the names that ignite gives them: horovod and mpi, in jobs. Starts its own jobs."""

import importlib.util
import os
import re
import shutil
import sys
import textwrap
import threading
import unittest
import unittest.mock

from covers import covers
from ignite_programs import IgniteTest
from jobs import UNISONO

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("unisono.torch") is None:
    print("skipped: the package torch or unisono-torch is missing")
    raise SystemExit(0)

import unisono
import unisono.ignite as idist
from unisono.ignite import utils

KINDS = [kind for kind, mpirun in (("openmpi", "mpirun.openmpi"), ("mpich", "mpiexec.hydra")) if shutil.which(mpirun)]
needs_mpi = unittest.skipUnless(unisono.is_backend_available("mpi") and KINDS, "there is no MPI, or unisono's engine for it was not built")


class BackendTest(IgniteTest):
    def run_command(self, command, expect=0, timeout=600, **environment):
        return super().run_command(command, expect, timeout, **environment)


class Refused(unittest.TestCase):
    @covers("A-60")
    def test_what_a_backend_does_not_have_is_refused_before_anything_starts(self):
        for call in (idist.initialize, idist.Parallel, lambda backend: idist.spawn(backend, print, ())):
            if not idist.has_xla_support:
                self.assertRaisesRegex(ValueError, "'xla-tpu' needs torch_xla, and this Python cannot import that: No module", call, "xla-tpu")
        for backend, how in (("horovod", {"timeout": 5}), ("horovod", {"nproc_per_node": 2, "comm": [0]}), ("mpi", {"hosts": "a:2"})):
            if backend in idist.available_backends():
                self.assertRaisesRegex(TypeError, "unexpected keyword argument", idist.Parallel, backend, **how)


class Threads(unittest.TestCase):
    def test_the_model_stays_until_the_last_thread_has_ended(self):
        class Model:  # of XLA's devices of one process, which are ranks as threads
            name = "threads"
            create_from_backend = get_local_rank = is_alive = finalize = lambda *_: Model
        first_has_ended = threading.Event()
        names = []

        def work(_, is_first):
            started.wait()
            if not is_first:
                self.assertTrue(first_has_ended.wait(60))
            names.append(idist.model_name())

        def rank(is_first):
            utils._run_in_job("threads", {}, work, (is_first,), {})
            if is_first:
                first_has_ended.set()

        started = threading.Barrier(2)
        with unittest.mock.patch.object(utils, "_assert_backend", return_value=Model):
            threads = [threading.Thread(target=rank, args=(is_first,)) for is_first in (True, False)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(names, ["threads", "threads"])
        self.assertEqual(idist.model_name(), "serial")


class Horovod(BackendTest):
    @covers("I-04", "I-06", "I-21", "I-22", "I-24", "I-25", "I-26", "I-27", "I-30", "I-36", "I-37", "I-41", "B-01", "B-02", "B-10", "B-13", "B-14", "B-15",
            "B-16", "B-17", "B-20")
    def test_two_ranks_compute_by_horovods_calls(self):
        output = self.ranks(
            """
            import unisono.horovod.torch as hvd
            assert idist.backend() is None
            idist.initialize("horovod")
            r = idist.get_rank()
            assert (idist.backend(), idist.model_name(), hvd.is_initialized()) == ("horovod", "horovod-dist", True)
            assert (idist.get_world_size(), idist.get_local_rank()) == (2, r)
            assert (idist.get_nproc_per_node(), idist.get_nnodes(), idist.get_node_rank(), idist.device().type) == (2, 1, 0, "cpu")
            assert "re-initialize Horovod" in str(error_of(idist.initialize, "horovod"))
            # reductions, in place
            x = torch.tensor([1.0 + r, 2.0])
            assert idist.all_reduce(x) is x and x.tolist() == [3, 4] and idist.all_reduce(r + 1) == 3 and idist.all_reduce(float(r), "AVERAGE") == 0.5
            for op, result in (("MIN", 2), ("MAX", 3), ("PRODUCT", 6)):
                assert idist.all_reduce(2 + r, op) == result, op
            alike, apart = torch.tensor([3.0, 4.0]), torch.tensor([1.0 - r, float(r)])
            assert idist.all_reduce(alike, "ADASUM").tolist() == [3, 4] and idist.all_reduce(apart, "ADASUM").tolist() == [1, 1]
            for wrong in ({"op": "AND"}, {"group": "abc"}):
                assert isinstance(error_of(idist.all_reduce, 1, **wrong), ValueError), wrong
            # what is gathered and broadcast; rows may differ
            assert idist.all_gather(torch.full((1 + r, 2), r)).tolist() == [[0, 0], [1, 1], [1, 1]]
            assert idist.all_gather(["é" * (300 * r), 1 << 70][r]) == ["", 1 << 70]
            assert idist.broadcast({"a": r} if r else None, src=1, safe_mode=True) == {"a": 1}
            y = torch.tensor(r, dtype=torch.int16)
            assert idist.broadcast(y, src=1) is y and y.item() == 1
            # groups are process sets
            group = idist.new_group([1])
            assert isinstance(group, hvd.ProcessSet) and idist.utils._rank_not_in_group(group) == (r == 0)
            assert idist.all_reduce(5, group=group) == 5 and idist.all_reduce(1, group=[0, 1]) == 2
            assert idist.all_gather("a", group=[1]) == (["a"] if r else "a")
            assert "duplicate process set" in str(error_of(idist.new_group, [1])) and isinstance(error_of(idist.new_group, [0, 0]), ValueError)
            idist.barrier()
            idist.finalize()
            assert not hvd.is_initialized() and idist.backend() is None
            # by comm in another order, and each for itself
            for mine in ([1, 0], [r]):
                idist.initialize("horovod", comm=mine)
                assert (idist.get_rank(), idist.all_gather(r)) == (mine.index(r), mine)
                idist.barrier()
                idist.finalize()
            # what the program itself begins is found, and stays
            hvd.init()
            assert (idist.model_name(), idist.backend(), idist.all_reduce(1)) == ("horovod-dist", "horovod", 2)
            idist.finalize()
            assert hvd.is_initialized() and idist.model_name() == "horovod-dist"
            hvd.barrier()
            hvd.shutdown()
            dist.init_process_group("unisono")
            hvd.init()
            assert idist.model_name() == "native-dist"
            hvd.barrier()
            fine()
            """
        )
        self.all_fine(output, 2)

    @covers("I-01", "A-38", "A-52")
    def test_a_model_gets_rank_0s_values_and_its_optimizer_reduces(self):
        output = self.ranks(
            """
            idist.initialize("horovod")
            r = idist.get_rank()
            # a model gets rank 0's values and is not wrapped, and its optimizer reduces; batch norms are over all ranks
            torch.manual_seed(r)
            given = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))
            model = idist.auto_model(given, sync_bn=True)
            assert model is given and type(model[1]).__name__ == "SyncBatchNorm"
            optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1 + r, momentum=0.9), backward_passes_per_step=2)
            assert isinstance(optimizer, torch.optim.SGD) and optimizer.backward_passes_per_step == 2 and optimizer.param_groups[0]["lr"] == 0.1
            for _ in range(2):
                optimizer.zero_grad()
                for _ in range(2):
                    model(torch.randn(4 + r, 3)).square().mean().backward()
                optimizer.step()
            weights = idist.all_gather([p.tolist() for p in model.state_dict().values()])
            assert weights[0] == weights[1]
            idist.finalize()
            fine()
            """
        )
        self.all_fine(output, 2)

    @covers("I-41")
    def test_ranks_that_comm_names_form_jobs_of_their_own(self):
        output = self.ranks(
            """
            import unisono.horovod.torch as hvd
            r = int(os.environ["RANK"])
            for wrong in ([0, 0], [0, 4], [(r + 1) % 4], ["0"], 5):
                error = error_of(idist.initialize, "horovod", comm=wrong)
                assert isinstance(error, ValueError), error
            mine = [3, 0] if r in (0, 3) else [1, 2]
            for _ in range(2):
                idist.initialize("horovod", comm=mine)
                assert (idist.get_world_size(), idist.get_rank()) == (2, mine.index(r)), mine
                assert idist.all_gather(r) == mine and hvd.size() == 2
                idist.barrier()
                idist.finalize()
            idist.initialize("horovod", comm=[0, 1, 2, 3])
            assert idist.all_gather(r) == [0, 1, 2, 3]
            idist.barrier()
            idist.finalize()
            # a communicator says who its ranks are
            class Pair:
                def allgather(self, rank):
                    return [2, 3] if rank > 1 else [0, 1]
            with idist.Parallel(backend="horovod", comm=Pair()) as parallel:
                assert parallel.run(lambda local_rank: idist.all_gather(r)) == [[0, 1] if r < 2 else [2, 3]]
            fine()
            """,
            n=4,
        )
        self.all_fine(output, 4)

    @covers("I-14", "I-15", "I-16", "A-60", "A-70", "A-72", "B-12")
    def test_spawn_and_parallel_start_ranks_of_horovod(self):
        output = self.alone(
            """
            import unisono.horovod.torch as hvd
            def work(local_rank, factor, offset=0):
                assert idist.backend() == "horovod" and local_rank == hvd.local_rank()
                return idist.all_reduce(factor * (hvd.rank() + 1)) + offset
            def fails(local_rank):
                if local_rank == 1:
                    raise ValueError("bad data")
                idist.all_reduce(1)
            if __name__ == "__main__":
                assert idist.spawn("horovod", work, (2,), {"offset": 5}, nproc_per_node=2, use_gloo=True) == [11, 11]
                with idist.Parallel(backend="horovod", nproc_per_node=2) as parallel:
                    assert parallel.run(work, 1, offset=2) == [5, 5]
                error = error_of(idist.spawn, "horovod", fails, (), nproc_per_node=2)
                assert isinstance(error, RuntimeError) and "rank 1" in str(error) and "ValueError: bad data" in str(error), error
                assert "set 'hosts' argument" in str(error_of(idist.spawn, "horovod", work, (1,), nproc_per_node=2, nnodes=2))
                assert isinstance(error_of(idist.spawn, "horovod", work, (1,), nproc_per_node=2, master_addr="a"), TypeError)
                fine()
            """
        )
        self.all_fine(output, 1)
        self.assertRegex(output, r"Spawn function '<function work at .*>' in 2 processes")

    @covers("K-46", "A-74")
    def test_an_exception_that_leaves_parallel_is_told(self):
        output = self.ranks(
            """
            def work(local_rank):
                if local_rank == 1:
                    raise ValueError("bad data")
                idist.barrier()
            try:
                with idist.Parallel(backend="horovod") as parallel:
                    parallel.run(work)
            except ValueError:
                os.write(1, b"it was rank 1\\n")
            except RuntimeError as error:
                os.write(1, f"it was told {error}\\n".encode())
            """
        )
        self.assertIn("it was rank 1", output)
        self.assertRegex(output, "it was told .*rank 1 ended with ValueError: bad data")


@needs_mpi
class Mpi(BackendTest):
    WORK = """
        import unisono
        idist.initialize("mpi", timeout=100)
        r, n = idist.get_rank(), idist.get_world_size()
        assert (idist.backend(), idist.model_name(), n, idist.get_local_rank(), idist.get_nnodes()) == ("mpi", "native-dist", 2, r, 1), (idist.backend(), n)
        assert dist.get_backend() == "unisono" and MPI_IS_LOADED()
        assert idist.all_reduce(torch.tensor([r + 1.0])).tolist() == [3] and idist.all_gather("é" * (300 * r)) == ["", "é" * 300]
        group = idist.new_group([0, 1])
        assert idist.all_reduce(r, "MAX", group=group) == 1 and idist.broadcast([r], src=1) == [1]
        idist.barrier()
        model = idist.auto_model(torch.nn.Linear(2, 1))
        assert type(model) is torch.nn.parallel.DistributedDataParallel
        model(torch.randn(3, 2)).sum().backward()
        gradients = idist.all_gather(model.module.weight.grad.tolist())
        assert gradients[0] == gradients[1]
        idist.finalize()
        fine()
        """
    LOADED = """
        def MPI_IS_LOADED():
            return any("libmpi" in line for line in open("/proc/self/maps"))
        """

    @covers("B-05", "B-09", "I-04")
    def test_ranks_of_the_launcher_and_of_mpirun_compute_by_mpi(self):
        path = self.program(textwrap.dedent(self.LOADED) + textwrap.dedent(self.WORK))
        for kind in KINDS:
            output = self.run_command([UNISONO, "run", "-n", "2", "--backend", "mpi", "--", sys.executable, path], UNISONO_MPI=kind)
            self.all_fine(output, 2)
        for kind, mpirun in (("openmpi", ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]), ("mpich", ["mpiexec.hydra"])):
            if kind in KINDS:
                self.all_fine(self.run_command([*mpirun, "-n", "2", sys.executable, path], UNISONO_MPI=kind), 2)

    @covers("K-77", "B-12", "I-14")
    def test_spawn_and_parallel_start_one_world_of_mpi(self):
        path = self.program(
            textwrap.dedent(self.LOADED)
            + textwrap.dedent(
                """
                def work(local_rank, factor, offset=0):
                    assert idist.backend() == "mpi" and MPI_IS_LOADED() and idist.get_world_size() == 2
                    return idist.all_reduce(factor * (idist.get_rank() + 1)) + offset, local_rank
                def leaves(local_rank):
                    idist.barrier()
                    if local_rank == 1:
                        sys.exit(0)
                    return "here"
                def fails(local_rank):
                    if local_rank == 1:
                        raise ValueError("bad data")
                    idist.all_reduce(1)
                def dies(local_rank):
                    os.kill(os.getpid(), 9) if local_rank == 1 else idist.all_reduce(1)
                def of_nodes(local_rank):
                    return idist.all_reduce(idist.get_rank()), idist.get_node_rank(), idist.get_nnodes()
                def node(number, where, results):
                    results.put(idist.spawn("mpi", of_nodes, (), nproc_per_node=2, nnodes=2, node_rank=number, init_method=where))
                def two_nodes():
                    import multiprocessing
                    where = f"tcp://127.0.0.1:{dist.TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False).port}"
                    results = multiprocessing.Queue()
                    nodes = [multiprocessing.Process(target=node, args=(i, where, results)) for i in range(2)]
                    [p.start() for p in nodes]
                    return sorted(results.get(timeout=300) for _ in nodes)
                if __name__ == "__main__":
                    from torch.multiprocessing import ProcessExitedException, ProcessRaisedException
                    assert idist.spawn("mpi", work, (2,), {"offset": 5}, nproc_per_node=2, timeout=100) == [(11, 0), (11, 1)]
                    running = idist.spawn("mpi", work, (3,), nproc_per_node=2, join=False)
                    assert len(running.pids()) == 1 and running.join() == [(9, 0), (9, 1)]
                    assert idist.spawn("mpi", leaves, (), nproc_per_node=2) == ["here", None]
                    with idist.Parallel(backend="mpi", nproc_per_node=2) as parallel:
                        assert parallel.run(work, 1, offset=2) == [(5, 0), (5, 1)]
                    error = error_of(idist.spawn, "mpi", fails, (), nproc_per_node=2)
                    assert isinstance(error, ProcessRaisedException) and error.error_index == 1 and "ValueError: bad data" in str(error), error
                    error = error_of(idist.spawn, "mpi", dies, (), nproc_per_node=2)
                    assert isinstance(error, ProcessExitedException) and error.error_index == 1 and error.signal_name == "SIGKILL", error
                    assert isinstance(error_of(idist.spawn, "mpi", work, (1,), nnodes=2, init_method="file:///x"), ValueError)
                    if os.environ["UNISONO_MPI"] == "mpich":  # Open MPI takes two nodes of one host for one that shares memory, and crashes
                        assert two_nodes() == [[(6, 0, 2)] * 2, [(6, 1, 2)] * 2]
                    fine()
                """
            )
        )
        for kind in KINDS:
            self.all_fine(self.run_command([sys.executable, path], UNISONO_MPI=kind), 1)


if __name__ == "__main__":
    os.environ.pop("RANK", None)
    unittest.main(verbosity=2)
