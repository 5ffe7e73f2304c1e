"""What goes wrong in a job, and what each rank is told: deadlines, peers that die, calls that differ, forks, Ctrl-C. Each test starts processes."""

import pickle
import signal
import subprocess
import sys
import unittest

import jobs
import unisono
from jobs import UNISONO


class Errors(jobs.JobTest):
    def test_a_launched_process_that_has_not_joined_is_not_initialized(self):
        output = self.ranks("""
        assert not unisono.is_initialized() and unisono.infer_launcher() == unisono.Launcher.unisono
        for call in (unisono.rank, unisono.world, lambda: unisono.all_reduce(1), unisono.barrier, unisono.device):
            try: call()
            except unisono.NotInitialized as error: assert isinstance(error, RuntimeError) and "initialize" in error.hint, error
            else: sys.exit(1)
        print("fine")
        """)
        self.assertEqual(output.count("fine"), 2, output)

    def test_initialize_twice_and_calls_without_it_are_errors(self):
        self.alone("""
        unisono.finalize()
        unisono.initialize()
        try: unisono.initialize()
        except unisono.AlreadyInitialized: pass
        else: sys.exit(1)
        unisono.finalize()
        with unisono.Context("serial", timeout=5):
            assert unisono.is_initialized() and unisono.backend() is None and unisono.model_name() == "serial"
        assert not unisono.is_initialized()
        try: unisono.initialize("no such backend")
        except unisono.InvalidArgument: pass
        unisono.show_config(sys.stdout)
        """)

    def test_calls_that_differ_are_a_mismatch(self):
        output = self.ranks(
            """
        with unisono.Context():
            for call in (lambda r: unisono.all_reduce(np.ones(3 + r)), lambda r: unisono.all_reduce(np.ones(3), "max" if r else "sum"),
                         lambda r: unisono.barrier() if r else unisono.all_reduce(1.0), lambda r: unisono.all_reduce(1 if r else 1.0)):
                try: call(unisono.rank() == 2)
                except unisono.Mismatch as error:
                    assert error.culprit == 2 and error.group == "world" and error.rank == unisono.rank(), vars(error)
                    assert error.where.file == __file__ and error.where.line in (7, 8), error.where
                    assert f"at program.py:{error.where.line}" in str(error), error
                else: sys.exit(1)
            assert unisono.all_reduce(1) == 3
            print("fine")
        """,
            3,
        )
        self.assertEqual(output.count("fine"), 3, output)

    def test_a_passed_deadline_is_a_timeout_that_names_the_missing(self):
        self.ranks("""
        with unisono.Context():
            if unisono.rank() == 1:
                time.sleep(3)
                sys.stdout.flush(); os._exit(0)
            try: unisono.all_reduce(np.ones(3), timeout=0.3)
            except unisono.Timeout as error:
                assert isinstance(error, TimeoutError) and error.missing == [1] and error.culprit == 1 and error.sequence == 1, vars(error)
                try: unisono.barrier()
                except unisono.Timeout: print("poisoned")
            else: sys.exit(1)
            os._exit(7)
        """, expect=None)

    def test_a_peer_that_is_killed_is_named(self):
        output = self.ranks(
            """
        unisono.initialize()
        if unisono.rank() == 1: os.kill(os.getpid(), signal.SIGKILL)
        try: unisono.all_reduce(np.ones(3))
        except unisono.PeerFailed as error:
            assert isinstance(error, ConnectionError) and error.culprit == 1, vars(error)
            assert error.cause is unisono.PeerFailed.Cause.killed and error.cause == "killed" and error.host, vars(error)
            rest = unisono.shrink_group(unisono.world())
            assert rest.global_ranks() == [0, 2] and unisono.all_reduce(1, group=rest) == 2
            print("fine", flush=True)
            unisono.barrier(rest)
            unisono.finalize()
        """,
            3,
            expect=None,
        )
        self.assertEqual(output.count("fine"), 2, output)

    def test_an_exception_that_leaves_the_context_is_told(self):
        output = self.ranks(
            """
        with unisono.Context():
            if unisono.rank() == 1: raise ValueError("bad data")
            try: unisono.barrier()
            except unisono.PeerFailed as error:
                assert "ValueError: bad data" in str(error) and error.culprit == 1 and error.cause == "aborted", error
                print("told", flush=True)
        """,
            expect=1,
        )
        self.assertIn("told", output)

    def test_an_exception_after_a_loss_is_told_to_what_is_left(self):
        """The world is over by then, and the others wait in what is left of it."""
        output = self.ranks(
            """
        with unisono.Context():
            if unisono.rank() == 1: os.kill(os.getpid(), signal.SIGKILL)
            try: unisono.barrier()
            except unisono.PeerFailed: rest = unisono.shrink_group(unisono.world())
            if unisono.rank() == 0: raise ValueError("bad data")
            try: unisono.barrier(rest)
            except unisono.PeerFailed as error:
                assert "ValueError: bad data" in str(error) and error.culprit == 0 and error.cause == "aborted", error
                print("told", flush=True)
        """,
            3,
            expect=None,
        )
        self.assertIn("told", output)

    def test_an_exception_that_nobody_catches_is_told(self):
        output = self.ranks(
            """
        unisono.initialize()
        if unisono.rank() == 1: raise ValueError("bad data")
        try: unisono.barrier()
        except unisono.PeerFailed as error: print("told:", error, flush=True)
        """,
            expect=1,
        )
        self.assertRegex(output, r"told: .*ended with ValueError: bad data")

    def test_a_program_without_finalize_ends_well(self):
        self.assertEqual(self.ranks("unisono.initialize(); print(unisono.all_reduce(1))").count("2"), 2)

    def test_an_error_of_an_asynchronous_call_says_where_it_was_called(self):
        output = self.ranks("""
        with unisono.Context():
            work = unisono.all_reduce_async(np.ones(3 + unisono.rank()))
            try: work.wait()
            except unisono.Mismatch as error: assert error.where.line == 7, error.where
            else: sys.exit(1)
            unisono.all_reduce_async(np.ones(3 + unisono.rank()))  # dropped: the next call says so
            time.sleep(0.2)
            try: unisono.barrier()
            except unisono.Mismatch as error: assert error.operation == "all_reduce"; print("fine")
        """)
        self.assertEqual(output.count("fine"), 2, output)

    def test_a_function_that_raises_is_told_to_the_others(self):
        output = self.ranks(
            """
        unisono.initialize()
        def combine(a, b): raise KeyError("no such thing")
        try: unisono.all_reduce(np.ones(3), combine)
        except (KeyError, unisono.PeerFailed) as error: print(type(error).__name__, "no such thing" in str(error), flush=True)
        os._exit(0)
        """,
            expect=None,
        )
        self.assertIn("KeyError True", output)

    def test_functions_that_differ_are_a_mismatch(self):
        output = self.ranks("""
        with unisono.Context():
            def one(a, b): return a + b
            def two(a, b): return a - b
            try: unisono.all_reduce(np.ones(3), one if unisono.rank() else two)
            except unisono.Mismatch: print("fine")
        """)
        self.assertEqual(output.count("fine"), 2, output)

    def test_a_forked_child_is_not_initialized(self):
        output = self.ranks("""
        unisono.initialize()
        x = np.ones(3)
        child = os.fork()
        if child == 0:
            try: unisono.all_reduce(x)
            except unisono.NotInitialized as error:
                assert "forked" in str(error) and not unisono.is_initialized()
                os._exit(5)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        unisono.all_reduce(x)
        unisono.finalize()
        print("fine")
        """)
        self.assertEqual(output.count("fine"), 2, output)

    def test_threads_call_on_groups_of_their_own_at_once(self):
        self.ranks("""
        import threading
        with unisono.Context():
            groups = [unisono.new_group() for _ in range(3)]
            def work(group):
                for _ in range(50): assert unisono.all_reduce(1, group=group) == 2
            threads = [threading.Thread(target=work, args=(group,)) for group in groups]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """)

    def test_the_interpreter_goes_on_while_a_call_waits(self):
        output = self.ranks("""
        import threading
        with unisono.Context():
            if unisono.rank() == 1: time.sleep(2)
            counted = 0
            done = False
            def count():
                global counted
                while not done: counted += 1; time.sleep(0.001)
            thread = threading.Thread(target=count); thread.start()
            unisono.barrier()
            done = True; thread.join()
            print("counted", counted > 20 or unisono.rank() == 1)
        """)
        self.assertEqual(output.count("counted True"), 2, output)

    def test_errors_travel(self):
        self.alone("""
        import pickle
        try: unisono.all_reduce("text")
        except unisono.InvalidArgument as error:
            again = pickle.loads(pickle.dumps(error))
            assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
        """)


class OldPickles(unittest.TestCase):
    """What version 0.1 has written as pickles means the same to every later version; what none has written is an exception."""

    def test_operations_are_read_by_their_numbers(self):
        for number, name in enumerate(("sum", "product", "min", "max", "avg", "band", "bor", "bxor", "land", "lor")):
            self.assertEqual(pickle.loads(b"cunisono._core\nReduceOp\n(I%d\ntR." % number), getattr(unisono.ReduceOp, name))
        with self.assertRaisesRegex(ValueError, "99 is not a valid ReduceOp"):
            pickle.loads(b"cunisono._core\nReduceOp\n(I99\ntR.")

    def test_errors_are_read_with_their_attributes(self):
        late = pickle.loads(
            b"cunisono._errors\n_rebuild\n(cunisono\nTimeout\n(Vlate\nt(dVmissing\n(lI1\naI3\nasVoperation\nVbarrier\nstR."
        )
        self.assertEqual((type(late), str(late), late.missing, late.operation, late.hint), (unisono.Timeout, "late", [1, 3], "barrier", None))
        gone = pickle.loads(
            b"cunisono._errors\n_rebuild\n(cunisono\nPeerFailed\n(Vgone\nt(dVcause\nc__builtin__\ngetattr\n(cunisono\nPeerFailed\nVCause\n"
            b"tR(Vkilled\ntRsVculprit\nI2\nstR."
        )
        self.assertEqual((gone.cause, gone.culprit, gone.where), (unisono.PeerFailed.Cause.killed, 2, None))
        end = pickle.loads(b"ccopy_reg\n_reconstructor\n(cunisono\nProcessEnd\nc__builtin__\ntuple\n(I1\nNVSIGKILL\nNV\nI01\nI00\nttR.")
        self.assertEqual((end.rank, end.signal, end.failed), (1, "SIGKILL", True))
        for text, what in ((b"cunisono\nOfAnotherVersion\n(tR.", "OfAnotherVersion"), (b"cunisono._core\nGone\n.", "Gone")):
            with self.assertRaisesRegex(AttributeError, what):
                pickle.loads(text)

    def test_objects_of_this_process_cannot_be_pickled(self):
        for thing in (unisono.world(), unisono.MemoryStore(), unisono.DistributedSampler(4, num_replicas=2, rank=0), unisono.all_reduce_async(bytearray(1))):
            with self.assertRaisesRegex(TypeError, rf"cannot pickle '([\w.]+\.)?{type(thing).__name__}' object"):
                pickle.dumps(thing)


class Interruption(jobs.JobTest):
    """Ctrl-C reaches a call that waits, whatever it waits for."""

    WAITS = {
        "a collective": "unisono.all_reduce(np.ones(3))",
        "a large one": "unisono.all_reduce(np.ones(1 << 20))",
        "a receive": "unisono.recv(np.ones(3), 1)",
        "a work": "unisono.all_reduce_async(np.ones(3)).wait()",
        "any work": "unisono.wait_any([unisono.all_reduce_async(np.ones(3))])",
        "behind a work": "w = unisono.all_reduce_async(np.ones(3)); unisono.barrier()",
        "an object": "unisono.all_gather_object(1)",
        "a new group": "unisono.new_group([0, 1])",
        "an elastic state": "unisono.synchronize(unisono.ElasticState(x=np.ones(3), n=1))",
        "an elastic job": "unisono.run_elastic(unisono.ElasticState(), lambda group: False)",
    }

    def interrupted(self, waiting, n):
        path = self.program(f"""
        if len(sys.argv) > 1: unisono.initialize(init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
        if unisono.world_size() == 2 and unisono.rank() == 1:
            input()
            try: unisono.barrier()
            except (unisono.PeerFailed, unisono.Mismatch) as error: print("told:", error, flush=True)
            os._exit(0)
        print("waits", flush=True)
        started = time.monotonic()
        try: {waiting}
        except KeyboardInterrupt: print("interrupted", flush=True)
        os._exit(0)
        """)
        command = [sys.executable, path]
        arguments = [[str(self.folder / "meeting"), str(rank)] for rank in range(n)] if n > 1 else [[]]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": self.environment()}
        ranks = [subprocess.Popen([*command, *more], **pipes) for more in arguments]
        try:
            self.assertEqual(ranks[0].stdout.readline(), "waits\n")
            signal_after = 0.3
            with self.assertRaises(subprocess.TimeoutExpired):
                ranks[0].wait(signal_after)
            ranks[0].send_signal(signal.SIGINT)
            output = ranks[0].communicate(timeout=60)[0]
            self.assertEqual(output, "interrupted\n", waiting)
            return [rank.communicate("\n", timeout=60)[0] for rank in ranks[1:]]
        finally:
            for rank in ranks:
                with rank:  # which closes its pipes
                    rank.kill()

    def test_calls_end_on_ctrl_c(self):
        for what, call in self.WAITS.items():
            with self.subTest(what):
                (peer,) = self.interrupted(call, 2)
                if "work" not in what:  # that goes on, until its process ends
                    self.assertIn("told:", peer)
        (peer,) = self.interrupted("unisono.barrier()", 2)
        self.assertIn("KeyboardInterrupt", peer)

    def test_stores_and_starts_end_on_ctrl_c(self):
        for what, call in {
            "memory": 'unisono.MemoryStore().get("a")',
            "file": f'unisono.FileStore("{self.folder}/store").get("a")',
            "tcp": 's = unisono.TcpStore("127.0.0.1", 0, is_server=True); unisono.TcpStore("127.0.0.1", s.port).get("a")',
            "unreachable": 'unisono.TcpStore("127.0.0.1", 9, timeout=60)',
            "initialize": f'unisono.initialize(init_method="file://{self.folder}/other", rank=0, world_size=2)',
            "initialize by tcp": 'unisono.initialize(init_method="tcp://127.0.0.1:29711", rank=1, world_size=2)',
            "a step": 'unisono.run_elastic(unisono.ElasticState(), lambda group: unisono.MemoryStore().get("a"))',
            "a step of Python": "unisono.run_elastic(unisono.ElasticState(), lambda group: signal.pause())",
            "threads": "unisono.run_threads(2, lambda r: unisono.barrier() if r else None or time.sleep(0.01) or unisono.recv(np.ones(1), 1))",
        }.items():
            with self.subTest(what):
                self.interrupted(call, 1)


if __name__ == "__main__":
    if not UNISONO:
        sys.exit("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")
    unittest.main()
