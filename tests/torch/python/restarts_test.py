"""torchrun --max-restarts starts a job anew in which a rank has ended: a few of the ways that restarts.py has."""

import unittest

from covers import covers
from restarts import run_once


class Restarts(unittest.TestCase):
    def recovers(self, agents, kind, moment, victim):
        self.assertEqual(run_once(agents, kind, moment, victim), "")

    def test_the_job_recovers_from_a_rank_killed_while_the_others_join(self):
        self.recovers(1, "kill", "joining", 1)

    def test_the_job_recovers_under_another_agent(self):
        self.recovers(2, "kill", "joining", 0)

    def test_the_job_recovers_from_a_rank_that_ends_while_a_group_is_formed(self):
        self.recovers(1, "_exit", "grouping", 0)

    @covers("TS-49")
    def test_the_job_recovers_from_an_exception_at_work(self):
        self.recovers(2, "raises", "working", 1)


if __name__ == "__main__":
    unittest.main()
