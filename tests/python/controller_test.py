"""A controller that starts its workers: calls, actors, futures, errors, and the ends of both sides."""

import asyncio
import concurrent.futures
import math
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import numpy as np

import controller_calls as calls
import jobs
import unisono

HERE = str(Path(__file__).parent)
workers = None  # of this program, for all of its tests but those that start programs of their own


def setUpModule():
    global workers
    workers = unisono.Controller(workers=2)


def tearDownModule():
    workers.close()


class ControllerTest(jobs.JobTest):
    def refused(self, text, function, *args, error=unisono.InvalidArgument, **kwargs):
        with self.assertRaises(error) as caught:
            function(*args, **kwargs)
        self.assertIn(text, str(caught.exception))
        return caught.exception


class Calls(ControllerTest):
    def test_a_call_on_all_has_results_in_the_order_of_the_workers(self):
        futures = workers.call(calls.place)
        self.assertEqual((len(futures), [future.worker for future in futures]), (2, [0, 1]))
        (first, second) = futures.result()
        self.assertEqual([first[:3], second[:3]], [(0, 2, 0), (1, 2, 1)])
        self.assertEqual(len({first[3], second[3], os.getpid()}), 3)
        self.assertEqual((unisono.worker_number(), len(workers), [worker.number for worker in workers]), (-1, 2, [0, 1]))

    def test_a_call_returns_before_it_is_answered(self):
        file = self.folder / "go"
        futures = workers.call(calls.wait_for_file, str(file))
        self.assertFalse(futures.done() or futures[0].done())
        with self.assertRaises(unisono.Timeout) as caught:
            futures[1].result(timeout=0.01)
        self.assertIn("wait_for_file(str) is not done after 0.01 s", str(caught.exception))
        with self.assertRaises(TimeoutError):
            futures.result(0.01)
        self.assertIsNone(unisono.wait_any(futures, timeout=0.01))
        file.touch()
        self.assertEqual(futures.result(), [pid for *_, pid in workers.call(calls.place).result()])
        self.assertTrue(futures.done())

    def test_arguments_are_passed_by_place_and_by_name(self):
        self.assertEqual(workers[1].call(calls.add, 1, b=2, c=3).result(), 6)
        self.assertEqual(workers[-1].call(math.factorial, 20).result(), math.factorial(20))
        self.assertEqual([worker.call(divmod, 7, 2).result() for worker in workers[0:2]], [(3, 1), (3, 1)])

    def test_functions_of_the_package_are_called_as_any(self):
        self.assertEqual(workers.call(unisono.rank).result(), [0, 1])
        self.assertEqual(workers.call(unisono.all_reduce, 5).result(), [10, 10])

    def test_collectives_in_a_call_are_those_of_the_workers(self):
        np.testing.assert_array_equal(workers.call(calls.total, np.arange(3.0)).result()[1], [0, 3, 6])
        self.assertEqual(unisono.world_size(), 3)

    def test_the_controller_takes_part_in_collectives_of_everyone(self):
        futures = workers.call(calls.receive, 1000)
        unisono.broadcast(np.ones(1000), 0, unisono.everyone())
        self.assertEqual((futures.result(), unisono.everyone().rank()), ([1001, 1002], 0))

    def test_large_arrays_and_bytes_arrive_as_what_they_are(self):
        array = np.arange(1 << 18, dtype=np.float32)
        fixed = array[:]
        fixed.flags.writeable = False
        many = b"x" * (1 << 20)
        for x, writeable in ((array, True), (fixed, False), (array[::2], True), (array[:10], True)):
            kind, can_write, back = workers[0].call(calls.kind_of, x).result()
            self.assertEqual((kind, can_write), (np.ndarray, writeable))
            np.testing.assert_array_equal(back, x)
        for x in (many, bytearray(many), b"", many[:10], "text" * 100_000, [many, {"a": array}]):
            kind, _, back = workers[0].call(calls.kind_of, x, y=many).result()
            self.assertEqual((kind, len(back)), (type(x), len(x)))
        self.assertEqual(workers[0].call(calls.kind_of, many).result()[2], many)
        self.assertIs(type(workers[0].call(calls.kind_of, many).result()[2]), bytes)
        self.assertIs(type(workers[0].call(bytearray, 1 << 20).result()), bytearray)

    def test_what_has_arrived_can_be_written_to_and_is_a_copy(self):
        x = np.ones(1 << 18)
        back = workers[0].call(calls.scale, x).result()
        back += 1
        self.assertEqual((x[5], back[5]), (1, 3))

    def test_an_array_is_sent_from_where_it_lies(self):
        x = np.ones(8 << 20, dtype=np.uint8)
        file = self.folder / "go"
        busy = workers[0].call(calls.wait_for_file, str(file))
        before = resident()
        futures = [workers[0].call(len, x) for _ in range(20)]
        self.assertLess(resident() - before, 60 << 20)  # of the 160 MiB that are under way
        file.touch()
        self.assertEqual([future.result() for future in futures], [x.size] * 20)
        busy.result()

    def test_calls_of_a_worker_are_carried_out_in_their_order(self):
        path = str(self.folder / "order")
        futures = [workers[0].call(calls.note, path, f"{i} ") for i in range(300)]
        futures[-1].result()
        self.assertEqual(Path(path).read_text(), "".join(f"{i} " for i in range(300)))

    def test_threads_call_beside_each_other(self):
        def several(i):
            return [workers[i % 2].call(calls.add, i, k).result() for k in range(50)]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for i, results in enumerate(pool.map(several, range(4))):
                self.assertEqual(results, [i + k for k in range(50)])

    def test_a_call_runs_in_the_main_thread_where_signals_are_heard(self):
        self.assertEqual(workers.call(calls.alarm).result(), [True, True])

    def test_sums_and_means_are_of_the_results(self):
        self.assertEqual(workers.sum(workers.call(calls.add, 1.5)), 3)
        self.assertEqual(workers.mean([workers[i].call(calls.add, i) for i in range(2)]), 0.5)
        np.testing.assert_array_equal(workers.mean([workers[i].call(np.full, 2, i * 3.0) for i in range(2)]), [1.5, 1.5])
        self.refused("no future", workers.mean, [])


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Objects(ControllerTest):
    def test_an_actor_keeps_its_state_and_its_methods_run_in_order(self):
        counter = workers.make(calls.Counter, 10)
        sums = [counter.add.call(i) for i in range(100)]
        self.assertEqual(sums[-1].result(), [10 + 4950] * 2)
        self.assertEqual(counter.order.call().result()[1], list(range(100)))
        self.assertEqual(counter[1].add.call(2).result(), 4962)
        self.assertEqual(workers.mean(counter.mean.call()), 4961)
        np.testing.assert_array_equal(workers.mean(counter.array.call()), np.full(3, 4961.0))
        self.assertEqual((counter.made.result(), counter[0].made.result(), len(counter)), ([None, None], None, 2))

    def test_an_actor_of_one_worker_answers_with_one_future(self):
        counter = workers[1].make(calls.Counter, start=3)
        self.assertEqual(counter.add.call(4).result(), 7)
        self.assertEqual((counter.add.call(0).worker, repr(counter)), (1, "<unisono.Actor Counter on worker 1>"))

    def test_an_actor_that_cannot_be_made_raises_why(self):
        counter = workers.make(calls.Counter, -1)
        for future in (counter.made[0], counter.add.call(1)[1], counter[0].order.call()):
            with self.assertRaisesRegex(ValueError, "there is no counter of -1"):
                future.result()

    def test_methods_that_are_none_are_refused_at_once(self):
        counter = workers.make(calls.Counter, 0)
        with self.assertRaisesRegex(AttributeError, "Counter has no method subtract"):
            counter.subtract
        with self.assertRaises(AttributeError):
            counter.__init__.call
        self.refused("write add.call(…)", counter.add, 1)
        self.assertIn("order", dir(counter))
        self.refused("its controller alone", workers[0].call, len, counter)
        self.refused("is no class", workers.make, calls.add)
        self.refused("is no function", workers.call, 5)

    def test_an_object_goes_with_its_last_handle(self):
        path = self.folder / "gone"
        tracked = workers.make(calls.Tracked, str(path))
        one = tracked[0]
        tracked.made.result()
        del tracked
        workers.call(calls.add, 1).result()
        self.assertFalse(path.exists())
        del one
        workers.call(calls.add, 1).result()
        self.assertEqual(path.read_text(), "gonegone")


class Errors(ControllerTest):
    def test_an_exception_is_raised_as_itself_with_what_was_called(self):
        line = sys._getframe().f_lineno + 1
        future = workers[1].call(calls.fail, "no such key", x=np.ones(2))
        with self.assertRaises(KeyError) as caught:
            future.result()
        self.assertEqual(caught.exception.args, ("no such key",))
        text = "\n".join(getattr(caught.exception, "__notes__", ())) or str(caught.exception.__cause__)
        self.assertIn(f"controller_calls.fail(str, x=ndarray) on worker 1, called at controller_test.py:{line}:", text)
        self.assertIn("raise KeyError(text)", text)
        self.assertIs(future.exception(), caught.exception)
        self.assertEqual(workers[1].call(calls.add, 1).result(), 1)

    def test_an_exception_that_cannot_travel_is_a_remote_error(self):
        error = self.refused("worker 0: controller_calls.fail_unreadable(): controller_calls.Unreadable: 1 and 2", workers[0].call(calls.fail_unreadable).result,
                             error=unisono.RemoteError)
        self.assertEqual((error.type, error.culprit), ("controller_calls.Unreadable", 0))

    def test_a_call_that_leaves_is_an_error_and_its_worker_stays(self):
        self.refused("SystemExit", workers[0].call(calls.leave).result, error=unisono.RemoteError)
        self.assertEqual(workers[0].call(calls.add, 2).result(), 2)

    def test_one_failure_among_all_is_raised_without_the_others(self):
        file = self.folder / "go"
        futures = unisono.Futures([workers[0].call(calls.wait_for_file, str(file)), workers[1].call(calls.fail, "early")])
        with self.assertRaisesRegex(KeyError, "early"):
            futures.result()
        file.touch()
        futures[0].result()

    def test_what_cannot_be_sent_is_named(self):
        self.refused("<lambda> cannot be sent", workers.call, lambda: 1)
        self.refused("top level of a module", workers.call, lambda: 1)
        self.refused("argument 2 of controller_calls.add, a generator, cannot be sent: TypeError", workers.call, calls.add, 1, (i for i in range(3)))
        self.refused("the argument c of controller_calls.add, a lock,", workers.call, calls.add, 1, c=threading.Lock())
        self.refused("the result, a generator, cannot be sent", workers[0].call(calls.generator).result)

    def test_what_the_worker_cannot_find_is_named(self):
        module = type(sys)("only_here")
        exec("def f(): pass", module.__dict__)
        sys.modules["only_here"] = module
        self.addCleanup(sys.modules.pop, "only_here")
        self.refused("only_here", workers[0].call(module.f).result)

    def test_a_result_above_the_limit_is_an_error(self):
        future = workers[0].call(unisono.set_object_limits, 100 << 20)
        future.result()
        self.refused("limit", workers[0].call(calls.huge).result)
        workers[0].call(unisono.set_object_limits, 1 << 30).result()

    def test_a_worker_that_there_is_not_is_an_index_error(self):
        with self.assertRaises(IndexError):
            workers[2]
        self.refused("this process has a controller", unisono.Controller, workers=2)


class Futures(ControllerTest):
    def busy(self, worker=0):
        file = self.folder / "go"
        return workers[worker].call(calls.wait_for_file, str(file)), file

    def test_callbacks_are_called_at_the_end(self):
        busy, file = self.busy()
        heard = threading.Event()
        who = []
        busy.add_done_callback(lambda future: (who.append(future), heard.set()))
        self.assertEqual(who, [])
        file.touch()
        self.assertTrue(heard.wait(60))
        self.assertIs(who[0], busy)
        busy.add_done_callback(who.append)
        self.assertEqual(who, [busy, busy])

    def test_a_call_that_has_not_begun_can_be_cancelled(self):
        busy, file = self.busy()
        path = self.folder / "written"
        waiting = workers[0].call(calls.note, str(path), "done")
        self.assertTrue(waiting.cancel())
        file.touch()
        with self.assertRaises(concurrent.futures.CancelledError):
            waiting.result()
        self.assertTrue(waiting.cancelled() and waiting.done() and not waiting.cancel())
        self.assertIsInstance(waiting.exception(), unisono.Cancelled)
        self.assertFalse(path.exists() or busy.cancelled())

    def test_the_first_that_is_done_is_found(self):
        busy, file = self.busy(0)
        quick = workers[1].call(calls.add, 1)
        self.assertEqual(unisono.wait_any([busy, quick]), 1)
        self.assertEqual(unisono.wait_any(iter([busy, workers[1].call(calls.fail, "x")])), 1)
        file.touch()
        busy.result()
        self.refused("not all of these are Futures", unisono.wait_any, [quick, 5])

    def test_coroutines_await_futures(self):
        squares, places, five = asyncio.run(calls.squares(workers, 20))
        self.assertEqual((squares, [place[0] for place in places], five), ([i * i for i in range(20)], [0, 1], 5))

        async def failing():
            await workers[0].call(calls.fail, "awaited")

        with self.assertRaisesRegex(KeyError, "awaited"):
            asyncio.run(failing())

    def test_a_coroutine_that_waits_lets_others_run(self):
        busy, file = self.busy()

        async def both():
            waiting = asyncio.ensure_future(busy)
            await asyncio.sleep(0)
            self.assertFalse(waiting.done())
            file.touch()
            return await waiting

        self.assertEqual(asyncio.run(both()), workers[0].call(calls.place).result()[3])


PROGRAM = f"""
sys.path.insert(0, {HERE!r})
import controller_calls as calls
def work(x): return x + unisono.rank()
"""


class Programs(ControllerTest):
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
    unisono.Controller(workers=1).call(calls.note, "last", "written")
""")
        self.assertIn("[19, 20]", output)
        self.assertEqual(output.count("over: "), 2)
        self.assertIn("[5]", output)
        self.assertEqual((self.folder / "last").read_text(), "written")

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

    def test_a_dead_worker_fails_what_was_sent_to_it_and_nothing_else(self):
        output = self.run_program("""
if __name__ == "__main__":
    with unisono.Controller(workers=2) as workers:
        counter = workers.make(calls.Counter, 1)
        dead = [workers[1].call(calls.die), workers[1].call(work, 1)]
        for future in dead:
            error = future.exception()
            print(type(error).__name__, error.culprit, error.cause.value)
        both = workers.call(work, 5)
        print(both[0].result(), type(both[1].exception()).__name__, counter[0].add.call(1).result(), type(workers[1].failure).__name__, workers[0].failure)
        try: workers.replace(1)
        except unisono.Unsupported as error: print("no replacement:", error)
""")
        self.assertEqual(output.splitlines()[:3], ["PeerFailed 1 killed", "PeerFailed 1 killed", "5 PeerFailed 2 PeerFailed None"])
        self.assertIn("no replacement: ", output)

    def test_an_exception_of_the_program_ends_its_workers_at_once(self):
        began = time.monotonic()
        output = self.run_program("""
if __name__ == "__main__":
    with unisono.Controller(workers=2) as workers:
        workers.call(work, 1).result()
        workers.call(time.sleep, 100)
        raise ValueError("bad data")
""", expect=1)
        self.assertIn("ValueError: bad data", output)
        self.assertEqual(output.count("Traceback"), 1)
        self.assertLess(time.monotonic() - began, 30)

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


class Jobs(ControllerTest):
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
                                          "a ValueError is no data", "more than 64 bits", "RemoteError call: worker 0: Counter.fail(): LookupError: at 7",
                                          "__init__ is no method"), strict=True):
            self.assertIn(text, line)

    def test_a_worker_that_allows_no_pickles_refuses_them(self):
        output = self.ranks("""
if os.environ["RANK"] == "1": os.environ["UNISONO_PICKLE"] = "off"
""" + PROGRAM + """
with unisono.Controller() as workers:
    try: workers.call(work, 1).result()
    except unisono.InvalidArgument as error: print(error)
""")
        self.assertIn("UNISONO_PICKLE=off", output)

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


if __name__ == "__main__":
    unittest.main()
