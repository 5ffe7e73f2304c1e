"""What is seen of a job that hangs, whoever has started its ranks: one job, the rank that is late by its number in it, and the lines of the program."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import unittest
import urllib.request

import jobs
from jobs import UNISONO

# Of the last two ranks, which have a group of their own, the first does not come. In that group it is rank 0.
HANGS = """
rank, size = begin()
dist.barrier()
pair = dist.new_group([size - 2, size - 1])
if rank == size - 1:
    dist.barrier(group=pair)  # the line
time.sleep(120)
"""


class Seen(jobs.JobTest):
    def setUp(self):
        super().setUp()
        if not UNISONO:
            self.skipTest("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")

    def start(self, command, **environment):
        process = subprocess.Popen(command, env=self.plain_environment() | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        return process

    def hanging(self, processes, path):
        """The jobs that status has of this program, once one of them has waited for long enough."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            for process in processes:
                self.assertIsNone(process.poll(), "it has ended before")
            found = [job for job in json.loads(self.run_command([UNISONO, "status", "--json"])) if path in job["program"]]
            if any(job["late"] for job in found):
                return found
            time.sleep(0.2)
        self.fail(f"nothing hangs: {found}")

    def line(self, path):
        with open(path) as file:
            return next(number for number, text in enumerate(file, 1) if "# the line" in text)

    def is_told(self, found, path, ranks):
        self.assertEqual([len(job["ranks"]) for job in found], [ranks], found)
        (late,) = found[0]["late"]
        self.assertEqual(late["rank"], ranks - 2, late)
        self.assertIn(f"(program.py:{self.line(path)})", late["text"])
        self.assertIn("it is in the program", late["text"])

    def test_a_job_that_nobody_started_is_seen(self):
        path, port, traces = self.program(HANGS), self.held_port(), str(self.folder / "traces")
        processes = [self.start([sys.executable, path], RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                                UNISONO_TRACE_DIR=traces) for rank in range(3)]
        self.is_told(self.hanging(processes, path), path, 3)
        for process in processes:
            process.terminate()
            process.wait()
        trace = " ".join(self.run_command([UNISONO, "trace", traces]).split())
        self.assertIn("rank 1 has not come to barrier", trace)
        self.assertNotIn("the slowest", trace)
        with open(os.path.join(traces, "trace.html")) as page:
            self.assertIn("rank 1 has not come to barrier", page.read())
        # The waiting rank has spent the time in its call, which is counted once.
        shares = re.search(r" 2 +([\d.]+) % +([\d.]+) % +([\d.]+) % ", self.run_command([UNISONO, "trace", traces]))
        computing, waiting, moving = map(float, shares.groups())
        self.assertLess(computing + waiting + moving, 100.3)
        self.assertLess(moving, waiting)

    def test_forming_a_group_is_no_call_that_the_metrics_count(self):
        path, mark = self.program("""
            number = os.environ["RANK"]
            open(f"{os.environ['MARK']}.loaded.{number}", "w").close()  # loading PyTorch may take longer than the timeout
            while not os.path.exists(f"{os.environ['MARK']}.loaded.{1 - int(number)}"):
                time.sleep(0.01)
            rank, size = begin(timeout=datetime.timedelta(seconds=8))
            if rank == 1:  # rank 0 has made no call yet
                error_of(lambda: dist.all_reduce(torch.ones(2)))
            open(f"{os.environ['MARK']}.{rank}", "w").close()
            while not os.path.exists(os.environ["MARK"]):
                time.sleep(0.05)
        """), self.folder / "mark"
        with open(self.folder / "said", "w+") as said:
            job = subprocess.Popen([UNISONO, "run", "-n", "2", "--metrics-port", "0", "--", sys.executable, path], stdout=subprocess.DEVNULL, stderr=said,
                                   env=self.plain_environment() | {"MARK": str(mark)})
            self.addCleanup(job.kill)
            deadline = time.monotonic() + 300
            while not all(os.path.exists(f"{mark}.{rank}") for rank in range(2)):
                self.assertTrue(job.poll() is None and time.monotonic() < deadline, "the ranks do not come so far")
                time.sleep(0.05)
            said.seek(0)
            page = urllib.request.urlopen(re.search(r"metrics: (http://\S+)", said.read()).group(1), timeout=30).read().decode()
        mark.touch()
        job.wait()
        failures = re.findall(r'^unisono_call_failures_total{.*rank="(\d)".*operation="(\w+)".*} (\d+)', page, re.MULTILINE)
        self.assertEqual(failures, [("1", "all_reduce", "1")], page)

    def test_a_job_of_unisono_run_is_seen(self):
        path = self.program(HANGS)
        job = self.start([UNISONO, "run", "-n", "2", "--", sys.executable, path])
        self.is_told(self.hanging([job], path), path, 2)
        job.send_signal(signal.SIGTERM)
        job.wait()

    def test_errors_and_records_name_the_line(self):
        records = str(self.folder / "records")
        outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
        def line_of(error):
            return re.search(r" at program.py:([0-9]+)", str(error))[1]
        def call(f):
            return line_of(error_of(f))
        x = torch.ones(4 + rank)
        print("lines", call(lambda: dist.all_reduce(x)), call(lambda: dist.all_reduce(x, async_op=True).wait()), call(lambda: dist.broadcast(x, 7)))
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        model(torch.ones(1, 2)).sum().backward()  # the line
        error_of(lambda: dist.all_reduce(x))
        """), UNISONO_RECORD_DIR=records)
        with open(self.folder / "program.py") as file:
            program = file.read().splitlines()
        of_print = next(number for number, text in enumerate(program, 1) if text.startswith("print("))
        for output in outputs:
            self.assertEqual(re.search("lines (.*)", output)[1].split(), [str(of_print)] * 3, output)
        dump = self.run_command([UNISONO, "status", "--from", records, "--dump"])
        self.assertIn(f"program.py:{self.line(self.folder / 'program.py')}", dump)
        self.assertNotIn(".cpp:", dump)


if __name__ == "__main__":
    unittest.main()
