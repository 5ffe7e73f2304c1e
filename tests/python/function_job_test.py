"""Jobs of functions that the program does not join: what is left when the program ends. Starts its own jobs."""

import os
import signal
import sys
import textwrap
import unittest

from jobs import UNISONO, JobTest

JOB = """
import os, signal, sys, threading, time
from unisono._function_job import FunctionJob
def work():
    open("pid", "w").write(str(os.getpid()))
    os.rename("pid", "rank")
    if "waits" in sys.argv:
        signal.pause()
    while not os.path.exists("may end"):
        time.sleep(0.01)
    open("done", "w").close()
def begin():
    FunctionJob("test", work, (), range(1), ["-n", "1", "--grace", "1"])
    while not os.path.exists("rank"):
        time.sleep(0.01)
"""


class Left(JobTest):
    def run_program(self, text, *arguments, expect=0):
        path = self.folder / "program.py"
        path.write_text(JOB + 'if __name__ == "__main__":\n' + textwrap.indent(textwrap.dedent(text), "    "))
        return self.run_command([sys.executable, str(path), *arguments], expect=expect, TMPDIR=str(self.temporary))

    def setUp(self):
        super().setUp()
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()

    def test_a_program_that_ends_waits_for_its_ranks_and_leaves_no_folder(self):
        for end, code in (("", 0), ("raise ValueError('bad data')", 1)):
            with self.subTest(end=end):
                self.run_program(f"""
                begin()
                if os.fork() == 0:                      # a process of its own does not wait, and leaves the folder
                    sys.exit()
                os.wait()
                assert os.listdir({str(self.temporary)!r})
                open("may end", "w").close()
                {end}
                """, expect=code)
                self.assertTrue((self.folder / "done").exists())
                self.assertEqual(list(self.temporary.iterdir()), [])
                for name in ("rank", "done", "may end"):
                    (self.folder / name).unlink()

    def test_the_ranks_end_with_the_process_that_has_started_them_in_whichever_thread(self):
        for begin in ("begin()", "thread = threading.Thread(target=begin); thread.start(); thread.join()"):
            with self.subTest(begin=begin):
                self.run_program(f"""
                {begin}
                assert os.path.exists(f"/proc/{{open('rank').read()}}")
                os.kill(os.getpid(), signal.SIGKILL)
                """, "waits", expect=-signal.SIGKILL)
                pid = (self.folder / "rank").read_text()
                self.wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
                (self.folder / "rank").unlink()

    def test_a_command_that_cannot_be_started_is_an_error_and_leaves_no_folder(self):
        self.run_program("""
        import unisono._paths
        unisono._paths.command = lambda: "/nowhere/unisono"
        try: begin()
        except FileNotFoundError: pass
        else: raise AssertionError("it was started")
        """)
        self.assertEqual(list(self.temporary.iterdir()), [])


if __name__ == "__main__":
    if UNISONO is None:
        sys.exit("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")
    unittest.main(verbosity=2)
