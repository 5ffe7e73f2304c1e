"""A controller that starts its workers: calls, actors, futures, errors, and the ends of both sides."""

import asyncio
import concurrent.futures
import math
import os
import sys
import threading
import time
import unittest
from pathlib import Path

import numpy as np

import controller_calls as calls
import jobs
import unisono

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

    def test_a_worker_that_was_started_leaves_ctrl_c_to_the_controller(self):
        self.assertEqual(workers.call(calls.interrupt_itself).result(), [0, 1])

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
        self.assertEqual((counter.made.result(), counter[0].made.result(), [one.worker for one in counter]), ([None, None], None, [0, 1]))

    def test_an_actor_of_one_worker_answers_with_one_future(self):
        counter = workers[1].make(calls.Counter, start=3)
        self.assertEqual(counter.add.call(4).result(), 7)
        self.assertEqual((counter.add.call(0).worker, repr(counter)), (1, "<unisono.Handle to Counter on worker 1>"))

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
        text = "worker 0: controller_calls.fail_unreadable(): controller_calls.Unreadable: 1 and 2"
        error = self.refused(text, workers[0].call(calls.fail_unreadable).result, error=unisono.RemoteError)
        self.assertEqual((error.type, error.culprit), ("controller_calls.Unreadable", 0))

    def test_a_call_that_leaves_is_an_error_and_its_worker_stays(self):
        self.refused("SystemExit", workers[0].call(calls.leave).result, error=unisono.RemoteError)
        self.assertEqual(workers[0].call(calls.add, 2).result(), 2)

    def test_one_failure_among_all_is_raised_without_the_others(self):
        file = self.folder / "go"
        futures = unisono.Futures([workers[0].call(calls.wait_for_file, str(file)), workers[1].call(calls.fail, "early")])
        with self.assertRaisesRegex(KeyError, "early"):
            futures.result(timeout=60)
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

    def test_what_is_registered_wrongly_is_refused(self):
        text = "@register\ndef f(): pass\n\n@register\ndef f(x): pass\n"
        self.refused("is registered twice: in lines 1 and 4", exec, compile(text, "twice.py", "exec"), {"register": unisono.remote, "__name__": "twice"})
        again = {"register": unisono.remote, "__name__": "again"}
        for file in ("cell 1", "cell 1", "cell 2"):  # a module that is read again, and a notebook
            exec(compile("@register\ndef f(): pass\n", file, "exec"), again)
        self.refused("is defined in a function", unisono.remote, lambda: 1)
        self.refused("@unisono.actor is for classes", unisono.remote, calls.Counter)
        self.refused("@unisono.remote is for functions", unisono.actor, calls.add)

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
        self.assertTrue(waiting.cancel() and unisono.Futures([waiting]).cancel())
        file.touch()
        with self.assertRaises(concurrent.futures.CancelledError):
            waiting.result()
        self.assertTrue(waiting.cancelled() and waiting.done() and not waiting.cancel())
        self.assertIsInstance(waiting.exception(), unisono.Cancelled)
        self.assertFalse(path.exists() or busy.cancelled() or unisono.Futures([waiting, busy]).cancel())

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


class EndOfAJob(unittest.TestCase):
    def test_ctrl_c_while_it_ends_in_order_ends_the_workers_at_once(self):
        from unisono._controller import _Job

        told, grace = [], []

        class Interrupted:
            def end(self, reason):
                told.append(reason)
                if not reason:
                    raise KeyboardInterrupt

        job = object.__new__(_Job)
        job.has_ended, job.workers, job._leave = False, Interrupted(), grace.append
        with self.assertRaises(KeyboardInterrupt):
            job.end("")
        self.assertEqual(told, ["", "was interrupted (KeyboardInterrupt)"])
        self.assertEqual(grace, [1])


if __name__ == "__main__":
    unittest.main()
