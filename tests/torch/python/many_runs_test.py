"""The same small job several times in each way to start one. scripts/test/soak-torch-runs does it hundreds of times."""

import unittest

from jobs import UNISONO
from many_runs import KINDS, Runs


class ManyRuns(unittest.TestCase):
    def test_many_runs_end_well(self):
        with Runs(ranks=4, warm=True) as warm, Runs(ranks=4) as cold:
            for way, runs, times in (("run", warm, 6), ("env", warm, 6), ("run", cold, 1), ("spawn", cold, 1), ("torchrun", cold, 1)):
                if way == "run" and not UNISONO:
                    continue
                for kind in KINDS:
                    for number in range(times):
                        with self.subTest(way=way, kind=kind, number=number):
                            code, output = runs.run(way, kind, number)
                            self.assertEqual(runs.judge(way, kind, code, output), "", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
