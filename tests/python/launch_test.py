"""Jobs that a program starts itself: spawn, launch, Parallel, run_threads; and the command."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
import unittest

import numpy as np

import jobs
import unisono
from jobs import UNISONO


def add(local_rank, scale, offset=0):
    assert unisono.is_initialized() and unisono.local_rank() == local_rank
    x = np.full(1000, unisono.rank() * scale + offset)
    return unisono.rank(), unisono.all_reduce(x)


def main(config, resume=None):
    return config, resume, unisono.world_size()


def anything(*args):
    return args


def nothing(local_rank):
    unisono.barrier()


def fail(rank):
    if rank == 1:
        raise ValueError("bad data")
    unisono.barrier()


def die(rank):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    unisono.barrier()


def leave(rank):
    if rank == 0:
        os._exit(3)
    unisono.barrier()


def of_mpi(local_rank, factor):
    return unisono.backend(), local_rank, unisono.all_reduce(factor)


def ends_early(local_rank):
    sys.exit()


def useless(local_rank):
    return lambda: 1


def hang(rank):
    time.sleep(100)


class Spawn(jobs.JobTest):
    def test_results_come_back_in_rank_order(self):
        results = unisono.spawn(add, 10, nproc_per_node=3)
        self.assertEqual([rank for rank, _ in results], [0, 1, 2])
        for _, x in results:
            np.testing.assert_array_equal(x, np.full(1000, 30))
        # The local rank comes first, whatever else the function could take.
        self.assertEqual(unisono.spawn(main, "cfg", nproc_per_node=2, backend="native", timeout=30), [(0, "cfg", 2), (1, "cfg", 2)])
        self.assertEqual(unisono.spawn(anything, 5, "a"), [(0, 5, "a")])
        self.assertEqual(unisono.spawn(nothing), [None])

    def test_two_nodes_form_one_job(self):
        meeting = f"file://{self.folder}/meeting"
        program = self.program(f"""
        sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
        import launch_test
        if __name__ == "__main__":
            print(unisono.spawn(launch_test.add, 5, nproc_per_node=1, nnodes=2, node_rank=1, init_method="{meeting}")[0][0])
        """)
        other = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True, env=self.environment())
        self.addCleanup(other.kill)
        ((rank, x),) = unisono.spawn(add, 5, nproc_per_node=1, nnodes=2, node_rank=0, init_method=meeting)
        self.assertEqual((rank, x[0], other.communicate(timeout=60)[0]), (0, 5, "1\n"))

    def failed(self, function, **how):
        with self.assertRaises(unisono.LaunchFailed) as caught:
            unisono.spawn(function, **how)
        return caught.exception

    def test_a_rank_that_raises_is_the_cause(self):
        error = self.failed(fail, nproc_per_node=3)
        self.assertEqual((error.culprit, error.operation), (1, "spawn"))
        self.assertIn("rank 1 ended with ValueError: bad data", str(error))
        self.assertIsInstance(error, ChildProcessError)
        self.assertIsInstance(error.__cause__, ValueError)
        self.assertIn("in fail", str(error.__cause__.__cause__))
        self.assertEqual([end.is_consequence for end in error.ends], [True, False, True])
        self.assertIsInstance(error.ends[0].error, unisono.PeerFailed)

    def test_a_rank_that_dies_is_named(self):
        error = self.failed(die, nproc_per_node=2)
        self.assertEqual((error.culprit, error.ends[1].signal), (1, "SIGKILL"))
        self.assertIn("SIGKILL", str(error))
        error = self.failed(leave, nproc_per_node=2)
        self.assertEqual((error.culprit, error.ends[0].exit_code), (0, 3))

    def test_a_function_or_result_that_cannot_travel_is_an_error(self):
        with self.assertRaisesRegex(unisono.InvalidArgument, "cannot be sent"):
            unisono.spawn(lambda: 1)
        self.assertIn("useless", str(self.failed(useless)))

    def by_hand(self, how, text):
        """A program of `python -c` (how: ["-c"]), of the standard input ([]), or typed at a prompt (["-i"])."""
        given = [*how, text] if how == ["-c"] else how
        return subprocess.run([sys.executable, *given], input=None if how == ["-c"] else text, capture_output=True, text=True, timeout=120,
                              env=self.environment())

    def test_without_cloudpickle_what_a_new_process_cannot_import_is_refused_in_one_sentence(self):
        work = "def work(rank): return rank\n"
        spawn = "print(unisono.spawn(work, nproc_per_node=2))\n"
        program = "import sys; sys.modules['cloudpickle'] = None\nimport unisono, numpy\n" + work
        as_argument = "class Config: pass\nprint(unisono.launch(numpy.copy, 1, 2, args=(Config(),)))\n"
        advice = "\\(pip install cloudpickle, which sends it by value; or put it into a file, and import it from there\\)"
        for how, text, name in ((["-c"], program + spawn, "work"), (["-c"], program + as_argument, "Config"), ([], program + spawn, "work")):
            done = self.by_hand(how, text)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("Traceback")), (1, "", 1), done.stderr)
            self.assertRegex(done.stderr.splitlines()[-1], f"InvalidArgument: spawn: {name} is defined .* and the new processes cannot import it {advice}$")
        # What can be imported is started from there as well.
        for how in (["-c"], []):
            done = self.by_hand(how, program.replace(work, "") + "import operator\nprint(unisono.spawn(operator.add, 5, nproc_per_node=2), __name__)")
            self.assertEqual(done.stdout, "[5, 6] __main__\n", done.stderr)
        # A function that only the first process defines.
        output = self.alone('if __name__ == "__main__":\n  def work(rank): return rank\n  unisono.spawn(work, nproc_per_node=2)', expect=1)
        self.assertRegex(output, "LaunchFailed: spawn: rank . ended with InvalidArgument: spawn: the new process cannot import what it was given: .*work")

    @unittest.skipUnless(importlib.util.find_spec("cloudpickle"), "cloudpickle is not installed: scripts/get/python brings it")
    def test_functions_of_the_command_line_the_standard_input_and_a_prompt_are_sent_by_value(self):
        # Without empty lines within a definition, which would end it at a prompt.
        program = """
import unisono
class Pair:
    def __init__(self, *both): self.both = both

class Broken(Exception): pass

def work(rank, pair, offset=0):
    if rank == pair.both[1]: raise Broken(f"rank {rank}")
    return Pair(unisono.all_reduce(rank + offset), pair.both[0])

results = unisono.spawn(work, Pair("left", 7), nproc_per_node=2)
print([(type(each) is Pair, *each.both) for each in results])
print(unisono.launch(lambda scale: scale * unisono.rank(), 1, 2, args=(3,)), unisono.run_threads(2, lambda rank: rank))
try: unisono.spawn(work, Pair("left", 1), nproc_per_node=2)
except unisono.LaunchFailed as error: print(error.culprit, type(error.__cause__) is Broken, error.__cause__)

"""
        expected = "[(True, 1, 'left'), (True, 1, 'left')]\n[0, 3] [0, 1]\n1 True rank 1\n"
        script = self.folder / "begin.py"
        script.write_text("import unisono\ndef of_the_file(rank): return rank + 10\n")
        # The last one is `python -i begin.py`: the file's own functions are imported from it, those of the prompt are not there.
        at_prompt = program + "print(unisono.spawn(of_the_file, nproc_per_node=2))\n"
        for how, text, more in ((["-c"], program, ""), ([], program, ""), (["-i"], program, ""), (["-i", str(script)], at_prompt, "[10, 11]\n")):
            with self.subTest(how=how):
                done = self.by_hand(how, text)
                self.assertEqual((done.returncode, done.stdout), (0, expected + more), done.stderr)

    def test_wrong_arguments_and_nested_use_are_refused(self):
        for how in ({"nproc_per_node": 0}, {"nnodes": 0}, {"nnodes": 2, "node_rank": 2}, {"nnodes": 2}, {"init_method": "tcp://127.0.0.1:1", "master_port": 5}):
            with self.assertRaises(unisono.InvalidArgument):
                unisono.spawn(nothing, **how)
        with unisono.Context(), self.assertRaises(unisono.AlreadyInitialized):
            unisono.spawn(nothing)
        output = self.ranks("""
        try: unisono.spawn(len)
        except unisono.InvalidArgument as error: print("fine", error)
        """)
        self.assertEqual(output.count("fine spawn: nested use"), 2, output)

    @unittest.skipUnless(unisono.is_backend_available("mpi"), "there is no MPI, or unisono's engine for it was not built")
    def test_with_backend_mpi_the_processes_are_one_world_of_mpi(self):
        self.assertEqual(unisono.spawn(of_mpi, 10, nproc_per_node=2, backend="mpi"), [("mpi", 0, 20), ("mpi", 1, 20)])
        self.assertEqual(unisono.Parallel(backend="mpi", nproc_per_node=2).run(of_mpi, 1), [("mpi", 0, 2), ("mpi", 1, 2)])
        error = self.failed(fail, nproc_per_node=2, backend="mpi")
        self.assertIn("rank 1 ended with ValueError: bad data; 1 more failed because of it", str(error))
        self.assertEqual((error.culprit, [end.is_consequence for end in error.ends]), (1, [True, False]))
        self.assertIsInstance(error.__cause__, ValueError)
        self.assertIn("in fail", str(error.__cause__.__cause__))
        self.assertIsInstance(error.ends[0].error, unisono.PeerFailed)
        for function, end in ((die, (1, None, "SIGKILL")), (leave, (0, 3, None))):
            error = self.failed(function, nproc_per_node=2, backend="mpi")
            first = error.ends[error.culprit]
            self.assertEqual((first.rank, first.exit_code, first.signal, first.is_consequence), (*end, False))
        self.assertIn("left by sys.exit", str(self.failed(ends_early, backend="mpi")))
        with self.assertRaisesRegex(unisono.InvalidArgument, "meet at master_addr and master_port, or at tcp://host:port, and not at file:///x"):
            unisono.spawn(nothing, nnodes=2, init_method="file:///x", backend="mpi")

    def test_its_processes_end_with_it(self):
        program = self.program(f"""
        sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
        import launch_test
        if __name__ == "__main__": unisono.spawn(launch_test.hang, nproc_per_node=2)
        """)
        parent = subprocess.Popen([sys.executable, program], env=self.environment())
        children = f"/proc/{parent.pid}/task/{parent.pid}/children"

        def started():
            with open(children) as file:
                return file.read().split()

        self.wait_for(lambda: len(started()) >= 3)  # two ranks, and the resource tracker of multiprocessing
        pids = started()
        time.sleep(1)
        parent.kill()
        parent.wait()
        self.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))


class End(jobs.JobTest):
    def test_sys_exit_in_the_scope_of_parallel_is_no_failure(self):
        output = self.ranks("""
        with unisono.Parallel(backend="native"):
            if unisono.rank() == 1: sys.exit()
            try: unisono.barrier()
            except unisono.PeerFailed as error: print("told:", error)
        """)
        self.assertRegex(output, r"told: .*rank 1 has left the group \(finalize\)")

    def test_an_end_without_finalize_is_told_as_what_it_is(self):
        """With its code, however the program ends; a group of its own may be gone before the program is."""
        for end, code in (("exit(3)", 3), ("quit(3)", 3), ("raise SystemExit(3)", 3), ("leave(3)", 3), ("raise SystemExit('no data')", 1), ("exit()", 0)):
            for group in ("unisono.world()", "unisono.new_group([0, 1])"):
                with self.subTest(end=end, group=group):
                    output = self.ranks(
                        f"""
                    from sys import exit as leave
                    def main():
                        unisono.initialize()
                        group = {group}
                        unisono.barrier(group)
                        if unisono.rank() == 1: {end}
                        try: unisono.barrier(group)
                        except unisono.PeerFailed as error: print("told:", error.cause == "exited", error, flush=True)
                    main()
                    """,
                        expect=code,
                    )
                    self.assertRegex(output, rf"told: True .*rank 1 \(pid \d+\) exited with code {code} before finalize")
                    self.assertNotIn("(finalize)", output)


class Launch(jobs.JobTest):
    def test_launch_runs_a_job_in_one_process_or_several(self):
        # The arguments alone, with one process as with two.
        self.assertEqual(unisono.launch(main, args=("cfg",)), [("cfg", None, 1)])
        self.assertEqual(unisono.launch(anything), [()])
        self.assertFalse(unisono.is_initialized())
        self.assertEqual(unisono.launch(main, 1, 2, 0, "auto", ("cfg",)), [("cfg", None, 2)] * 2)
        with self.assertRaises(ValueError):
            unisono.launch(_raises)
        self.assertFalse(unisono.is_initialized())
        for how in ({"num_machines": 0}, {"num_machines": 2}, {"machine_rank": 1}):
            with self.assertRaises(unisono.InvalidArgument):
                unisono.launch(nothing, **how)

    def test_parallel_runs_alone_in_a_job_or_spawned(self):
        with unisono.Parallel() as parallel:
            self.assertEqual(parallel.run(anything, 4), [(0, 4)])
        with unisono.Parallel("native", nproc_per_node=2) as parallel:
            self.assertEqual(parallel.run(main, 4), [(0, 4, 2), (1, 4, 2)])
        with unisono.Parallel("native") as parallel:
            self.assertTrue(unisono.is_initialized())
            self.assertEqual(parallel.run(main, 4), [(0, 4, 1)])
        self.assertFalse(unisono.is_initialized())
        self.assertEqual(unisono.Parallel("native").run(anything, 4), [(0, 4)])
        for how in ({"nproc_per_node": 2}, {"timeout": 2}, {"init_method": "file:///x"}, {"backend": "native", "nproc_per_node": 2, "nnodes": 2}):
            with self.assertRaises(unisono.InvalidArgument):
                unisono.Parallel(**how)
        output = self.ranks("""
        with unisono.Parallel("native") as parallel:
            print(parallel.run(lambda rank, x: x + rank + unisono.world_size(), 10))
        """)
        self.assertIn("[0] [12]", output)
        self.assertIn("[1] [13]", output)

    def test_run_threads_returns_what_each_rank_returned(self):
        self.assertEqual(unisono.run_threads(3, lambda rank: unisono.all_reduce(rank)), [3, 3, 3])
        self.assertEqual(unisono.run_threads(2, anything, 5), [(0, 5), (1, 5)])
        self.assertEqual(unisono.run_threads(2, lambda rank, x: (rank, x), "a"), [(0, "a"), (1, "a")])
        with self.assertRaisesRegex(KeyError, "lost"):
            unisono.run_threads(3, _one_raises)
        with self.assertRaises(unisono.InvalidArgument):
            unisono.run_threads(0, nothing)


def _raises():
    raise ValueError("bad data")


def _one_raises(rank):
    if rank == 1:
        raise KeyError("lost")
    try:
        unisono.barrier()
    except unisono.PeerFailed as error:
        assert "KeyError: 'lost'" in str(error)
        raise


class Command(jobs.JobTest):
    def test_it_is_the_command(self):
        output = self.run_command([sys.executable, "-m", "unisono", "info"])
        self.assertIn(unisono.__version__, output)
        self.assertIn("native", output)
        output = self.run_command([sys.executable, "-m", "unisono", "run", "-n", "2", "--", "sh", "-c", "echo $RANK"])
        self.assertEqual(sorted(output.split("\n")), ["", "[0] 0", "[1] 1"])
        self.run_command([sys.executable, "-m", "unisono", "no-such"], expect=None)

    def test_the_prefix_of_cmake_is_told(self):
        folder = self.run_command([sys.executable, "-m", "unisono", "--cmake-prefix"]).strip()
        self.assertTrue(os.path.exists(os.path.join(folder, "__init__.py")))
        self.assertEqual(folder, unisono.cmake_prefix())


if __name__ == "__main__":
    if not UNISONO:
        sys.exit("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")
    unittest.main()
