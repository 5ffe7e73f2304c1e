"""`unisono status --stacks` with the real py-spy (scripts/get/dependencies --real): where in the program a rank is for which the others wait."""

import json
import os
import subprocess
import sys
import unittest

from jobs import JobTest, UNISONO

PY_SPY = os.environ["PY_SPY_FOLDER"]
PROGRAM = """
unisono.initialize()
x = np.ones(1000, np.float32)
for _ in range(3):
    unisono.all_reduce(x)

def load_the_next_batch():
    signal.pause()

def train():
    if unisono.rank() == 1:
        load_the_next_batch()
    unisono.all_reduce(x)

train()
"""


@unittest.skipUnless(os.access(PY_SPY + "/py-spy", os.X_OK), "py-spy is missing (scripts/get/dependencies --real)")
class Stacks(JobTest):
    def status(self, *words):
        told = self.run_command([UNISONO, "status", "--json", *words], PATH=PY_SPY + ":/usr/bin:/bin")
        return [job for job in json.loads(told) if str(self.folder) in job["program"]]

    def test_a_late_rank_shows_its_python_frames(self):
        path = self.program(PROGRAM)
        job = subprocess.Popen([UNISONO, "run", "-n", "2", "--grace", "3", "--", sys.executable, path], cwd=self.folder, env=self.environment())
        try:
            self.wait_for(lambda: any(found["late"] for found in self.status()))
            (stack,) = self.status("--stacks")[0]["stacks"]
        finally:
            job.terminate()
            job.wait()
        self.assertEqual(stack["rank"], 1)
        frames = [frame.split(" (")[0] for frame in stack["python"]]
        self.assertEqual(frames, ["load_the_next_batch", "train", "<module>"], stack)
        self.assertTrue(all("program.py:" in frame for frame in stack["python"]), stack)


if __name__ == "__main__":
    unittest.main()
