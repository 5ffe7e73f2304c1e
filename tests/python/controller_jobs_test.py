"""Programs that are controllers: how they start and end, alone and as ranks of a job."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import jobs
import unisono

CHANGING = os.environ.get("CHANGING", "")  # tests/hosts/changing.c
HERE = str(Path(__file__).parent)

PROGRAM = f"""
sys.path.insert(0, {HERE!r})
import controller_calls as calls
def work(x): return x + unisono.rank()
"""


class Programs(jobs.JobTest):
    def run_program(self, text, **how):
        return self.alone(PROGRAM + text, **how)

    def start(self, text):
        program = subprocess.Popen([sys.executable, self.program(PROGRAM + text)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment(), cwd=self.folder, start_new_session=True)
        self.addCleanup(program.kill)
        return program

    def processes_of(self, program):
        """Of the session of a program that was started."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[3]) == program.pid:
                    found.append(int(entry.name))
            except OSError:  # it has ended meanwhile
                pass
        return found

    def test_functions_of_the_program_are_called_and_it_ends_in_order(self):
        output = self.run_program("""
if __name__ == "__main__":
    workers = unisono.Controller(workers=2, most_in_flight=4)
    futures = [workers.call(work, i) for i in range(20)]     # beyond what may be in flight
    print(futures[-1].result())
    trainer = workers.make(calls.Counter, 1)
    workers.close(), workers.close()
    for call in (lambda: workers.call(work, 1), lambda: trainer.add.call(1)):
        try: call()
        except unisono.NotInitialized as error: print("over:", error)
    assert not unisono.is_initialized()
    with unisono.Controller(workers=1) as again:             # and one that is left to the program's end
        last = again.call(work, 5)
    print(last.result())
    last = unisono.Controller(workers=1)
    for _ in range(5): last.call(time.sleep, 0.1)
    last.call(calls.note, "last", "written")
""")
        self.assertIn("[19, 20]", output)
        self.assertEqual(output.count("over: "), 2)
        self.assertIn("[5]", output)
        self.assertEqual((self.folder / "last").read_text(), "written")
        self.assertNotIn("lost", output)

    def test_the_timeout_is_that_of_the_workers_collectives(self):
        output = self.run_program("""
if __name__ == "__main__":
    with unisono.Controller(workers=2, timeout=4) as workers:  # within which the workers have to meet as well
        print(type(workers[1].call(unisono.barrier).exception()).__name__)
        assert workers[0].call(work, 1).result() == 1
    for wrong in (lambda: unisono.Controller(), lambda: unisono.Controller(-1), lambda: unisono.Controller(1, backend="nonsense")):
        try: wrong()
        except (unisono.Error, ValueError) as error: print(type(error).__name__, error, unisono.is_initialized())
""")
        lines = output.splitlines()
        self.assertEqual(lines[0], "Timeout")
        self.assertRegex(lines[1], "^InvalidArgument .*this process is alone.* False$")
        self.assertRegex(lines[2], "^InvalidArgument Controller: there are no -1 workers False$")
        self.assertRegex(output, "(?m)nonsense.* False$")

    def test_a_program_without_a_guard_is_told_so(self):
        output = self.run_program("workers = unisono.Controller(workers=1)\n", expect=1)
        self.assertIn('the program makes its controller behind `if __name__ == "__main__":`', output)
        self.assertIn("LaunchFailed", output)
        self.assertIn("Controller: rank 1 exited with 1", output)

    def test_a_lambda_and_a_prompts_function_are_refused(self):
        output = self.run_command([sys.executable, "-c", """
import unisono
def f(): pass
with unisono.Controller(workers=1) as workers:
    try: workers.call(f).result()
    except unisono.InvalidArgument as error: print("refused:", error)
"""])
        self.assertIn("refused: ", output)
        self.assertIn("at the top level of a module", output)
        done = subprocess.run([sys.executable], input="import unisono\nunisono.Controller(workers=1)\n", capture_output=True, text=True, timeout=120,
                              env=self.environment(), cwd=self.folder)
        self.assertIn("the new processes cannot read it again (put it into a file", done.stderr)

    def test_a_dead_worker_fails_what_was_sent_to_it_and_nothing_else(self):
        output = self.run_program("""
if __name__ == "__main__":
    with unisono.Controller(workers=2) as workers:
        counter = workers.make(calls.Counter, 1)
        dead = [workers[1].call(calls.die), workers[1].call(work, 1)]
        for future in dead:
            error = future.exception()
            print(type(error).__name__, error.culprit, error.cause.value)
        for function in (calls.total, calls.receive):   # among the workers, and with the controller
            error = workers[0].call(function, 10).exception()
            print(type(error).__name__, error.culprit, error.cause.value)
        both = workers.call(work, 5)
        print(both[0].result(), type(both[1].exception()).__name__, counter[0].add.call(1).result(), type(workers[1].failure).__name__, workers[0].failure)
        try: workers.replace(1)
        except unisono.Unsupported as error: print("no replacement:", error)
""")
        self.assertEqual(output.splitlines()[:5], ["PeerFailed 1 killed"] * 4 + ["5 PeerFailed 2 PeerFailed None"])
        self.assertIn("no replacement: ", output)

    def test_an_exception_of_the_program_ends_its_workers_at_once(self):
        output = self.run_program("""
if __name__ == "__main__":
    with unisono.Controller(workers=2) as workers:
        workers.call(work, 1).result()
        workers.call(calls.hang, "ready")
        calls.wait_for_file("ready")
        raise ValueError("bad data")
""", expect=1)
        self.assertIn("ValueError: bad data", output)
        self.assertEqual(output.count("Traceback"), 1)
        self.assertLess(time.time() - (self.folder / "ready").stat().st_mtime, 12)

    def interrupt(self, text, to_all):
        program = self.start(text)
        self.wait_for((self.folder / "ready").exists)
        os.killpg(program.pid, signal.SIGINT) if to_all else program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=60)
        self.assertNotEqual(program.returncode, 0)
        self.assertIn("KeyboardInterrupt", errors)
        self.assertLessEqual(errors.count("Traceback"), 1, errors)
        self.wait_for(lambda: not self.processes_of(program))

    def test_ctrl_c_ends_all(self):
        self.interrupt("""
if __name__ == "__main__":
    with unisono.Controller(workers=2) as workers:
        workers.call(work, 1).result()
        futures = workers.call(time.sleep, 100)
        open("ready", "w").close()
        futures.result()
""", to_all=True)

    def test_workers_end_with_a_controller_that_is_killed(self):
        program = self.start("""
if __name__ == "__main__":
    with unisono.Controller(workers=2) as workers:
        workers.call(work, 1).result()
        open("ready", "w").close()
        workers.call(time.sleep, 100).result()
""")
        self.wait_for((self.folder / "ready").exists)
        program.kill()
        program.communicate()
        self.wait_for(lambda: not self.processes_of(program))


class Jobs(jobs.JobTest):
    """Under the launcher, whose ranks are the workers."""

    def test_the_ranks_of_a_job_serve_and_end_there(self):
        output = self.ranks(PROGRAM + """
with unisono.Controller() as workers:
    print("only here", os.environ["RANK"], workers.call(work, 10).result(), [place[:3] for place in workers.call(calls.place).result()])
print("after")
""", n=3)
        self.assertEqual(self.lines(output, 0), ["only here 0 [10, 11] [(0, 2, 0), (1, 2, 1)]", "after"])
        self.assertEqual(self.lines(output, 1) + self.lines(output, 2), [])

    def test_without_pickles_registered_functions_take_data(self):
        output = self.ranks(PROGRAM + """
with unisono.Controller(workers=1) as workers:
    back = workers[0].call(calls.registered, np.arange(4, dtype=np.int16), factor=1.5).result()
    print(back["x"].dtype, back["x"].tolist(), back["times"], back["name"])
    print(workers[0].call(calls.registered, bytes(200_000)).result()["x"] == bytes(200_000), workers[0].call(calls.registered, np.float32(1.5)).result()["x"])
    counter = workers.make(calls.Counter, 3)
    print(counter.add.call(4).result(), counter.array.call().result()[0].tolist())
    def attempt(what):
        try: what()
        except unisono.Error as error: print(type(error).__name__, error)
    attempt(lambda: workers.call(calls.unregistered))
    attempt(lambda: workers.make(calls.Tracked, "x"))
    attempt(lambda: workers.call(calls.registered, ValueError()))
    attempt(lambda: workers.call(calls.registered, 1 << 70))
    attempt(counter.fail.call().result)
    attempt(lambda: counter._object.call(0, 1, "__init__", (), {})[0].result())
""", n=2, UNISONO_PICKLE="off")
        lines = self.lines(output, 0)
        self.assertEqual(lines[:3], ["int16 [0, 1, 2, 3] [1.5, None, True] ('é', b'raw')", "True 1.5", "[7] [7.0, 7.0, 7.0]"])
        for line, text in zip(lines[3:], ("InvalidArgument call: controller_calls.unregistered is not registered", "decorate it with @unisono.actor",
                                          "a ValueError is not data", "more than 64 bits", "RemoteError call: worker 0: Counter.fail(): LookupError: at 7",
                                          "__init__ is not a method"), strict=True):
            self.assertIn(text, line)

    def test_registered_functions_that_differ_between_processes_are_named(self):
        output = self.ranks("""
if os.environ["RANK"] == "0":
    @unisono.remote
    def work(x, y): pass
    @unisono.remote
    def alone(): pass
else:
    @unisono.remote
    def work(x): pass
with unisono.Controller() as workers:
    for call in (lambda: workers[0].call(work, 1, 2), lambda: workers[0].call(alone)):
        try: call().result()
        except unisono.Error as error: print(type(error).__name__, error)
""", UNISONO_PICKLE="off")
        lines = self.lines(output, 0)
        self.assertIn("__main__.work(x, y) is __main__.work(x) on this worker", lines[0])
        self.assertIn("this worker has no function __main__.alone", lines[1])

    def test_a_worker_that_allows_no_pickles_refuses_them(self):
        output = self.ranks("""
if os.environ["RANK"] == "1": os.environ["UNISONO_PICKLE"] = "off"
""" + PROGRAM + """
with unisono.Controller() as workers:
    try: workers.call(work, 1).result()
    except unisono.InvalidArgument as error: print(error)
""")
        self.assertIn("UNISONO_PICKLE=off", output)

    def test_a_controller_that_allows_no_pickles_reads_none(self):
        output = self.ranks(PROGRAM + """
class Hostile:
    def __reduce__(self): return open, ("read", "w")
if os.environ["RANK"] == "1":
    import pickle
    unisono._serving.failed = lambda error, may_pickle: (pickle.dumps(Hostile()), "Hostile", "text", "trace")
with unisono.Controller() as workers:
    print(repr(workers[0].call(calls.registered).exception()))
""", UNISONO_PICKLE="off")
        self.assertIn("RemoteError('call: worker 0: controller_calls.registered(): Hostile: text')", output)
        self.assertFalse((self.folder / "read").exists())

    def test_methods_of_an_object_whose_class_was_refused_say_why(self):
        output = self.ranks(PROGRAM + """
if os.environ["RANK"] == "0":
    @unisono.actor
    class Only:
        def step(self): pass
with unisono.Controller() as workers:
    only = workers[0].make(Only)
    print("made", only.made.exception())
    print("step", only.step.call().exception())
""", UNISONO_PICKLE="off")
        for what in ("made", "step"):
            self.assertRegex(output, rf"{what} .*this worker has no class __main__\.Only")

    def test_a_lost_worker_is_replaced_in_an_elastic_job(self):
        output = self.ranks(PROGRAM + """
with unisono.Controller() as workers:
    counter = workers.make(calls.Counter, 1)
    before = workers.call(calls.place).result()
    error = workers[1].call(calls.die).exception()
    print(type(error).__name__, error.culprit)
    workers.replace(1)
    after = workers.call(calls.place).result()
    print([place[:3] for place in after], before[0][3] == after[0][3], before[1][3] == after[1][3])
    print(counter[0].add.call(1).result())
    try: counter.add.call(1)
    except unisono.InvalidArgument as error: print("gone:", error)
    print(workers.call(calls.total, 1).result())
""", n="2:3", options=("--max-restarts", "1"))
        lines = self.lines(output, 0)
        self.assertEqual(lines[:3], ["PeerFailed 1", "[(0, 2, 0), (1, 2, 1)] True False", "2"])
        self.assertIn("gone: call: this Counter is gone: worker 1 was replaced", lines[3])
        self.assertEqual(lines[4], "[3, 3]")

    def test_ctrl_c_ends_a_job(self):
        program = subprocess.Popen([jobs.UNISONO, "run", "-n", "3", "--grace", "3", "--", sys.executable, self.program(PROGRAM + """
with unisono.Controller() as workers:
    workers.call(work, 1).result()
    open("ready", "w").close()
    workers.call(work, 1).result(), time.sleep(100)
""")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment(), cwd=self.folder)
        self.addCleanup(program.kill)
        self.wait_for((self.folder / "ready").exists)
        program.send_signal(signal.SIGINT)
        output, _ = program.communicate(timeout=60)
        self.assertNotEqual(program.returncode, 0)
        self.assertLessEqual(output.count("Traceback"), 1, output)


class Hosts(jobs.JobTest):
    """A controller on one host and a worker on another."""

    CALL = PROGRAM + """
with unisono.Controller() as workers:
    x = np.frombuffer(b"the object as it was sent" * 8000, "u1")
    print(workers.call({function}, {argument}).result()[0])
"""

    def test_calls_travel_between_hosts(self):
        output = self.two_hosts(self.CALL.format(function="calls.doubled", argument="x"), expect=0)
        self.assertIn("400000", output)

    def test_a_call_that_was_changed_is_refused(self):
        for argument in ("x", "x.tobytes()[:25]"):
            output = self.two_hosts(self.CALL.format(function="bytes", argument=argument), LD_PRELOAD=CHANGING, CHANGE_FROM="the object as it was sent",
                                    CHANGE_TO="the object of an attacker")
            self.assertRegex(output, "somebody changes the data between the hosts|a frame that was changed on the way")
            self.assertNotIn("of an attacker", output)

    def test_without_a_token_only_data_travels(self):
        self.assertIn("'times': [2, None, True]", self.two_hosts(self.CALL.format(function="calls.registered", argument="5"), expect=0, token="none"))
        self.assertIn("is not registered, and pickles", self.two_hosts(self.CALL.format(function="len", argument="x"), token="none"))


if __name__ == "__main__":
    unittest.main()
