"""Jobs under `unisono run -n MIN:MAX` whose ranks end themselves: the others go on, and take in the processes that replace them."""

import re
import sys
import unittest

import jobs
from covers import covers
from jobs import UNISONO

# What each rank brings to a sum depends on its rank, and the sum does not depend on how many ranks there are: the result of every job is known.
TRAINING = """
import hashlib

STEPS = 40
place, newcomer = int(os.environ["RANK"]), int(os.environ.get("UNISONO_NEWCOMER", 0))
weights = np.full(1009, 5 + place)  # all ranks get the lowest one's
state = unisono.ElasticState(weights=weights, sizes=[], since=0)

def die(moment, at, victims):
    if (moment, state.step) == (MOMENT, at) and place in victims and not newcomer: os.kill(os.getpid(), signal.SIGKILL)

def train(group):
    die("before", STEP, VICTIMS)
    gradient = np.arange(1009) * (state.step + 1) * sum(range(group.rank(), 60, group.size()))
    unisono.all_reduce(gradient, "sum", group)
    die("behind", STEP, VICTIMS)
    state.weights += gradient
    if state.sizes[-1:] != [group.size()]:
        state.sizes.append(group.size())
        state.since = 0
    state.since += 1
    state.step += 1

def is_done(complete):
    return state.step >= STEPS and state.sizes[-1] >= complete and state.since >= 10

def report(group):
    expected = 5 + LOWEST + np.arange(1009) * sum(range(60)) * (state.step * (state.step + 1) // 2)
    right = np.array_equal(state.weights, expected) and state.weights is weights
    digest = hashlib.sha256(weights.tobytes()).hexdigest()[:16]
    print(f"place {place}.{newcomer} as {group.rank()} of {group.size()}: {right} after {state.step}, {digest}, {state.sizes}", flush=True)
    assert SIZE < 3 or (unisono.rank(), unisono.world_size()) == (group.rank(), group.size())
"""

LOOP = """
with unisono.Context(timeout=60):
    def step(group):
        if state.sizes and is_done(SIZE): return False
        train(group)
        return True
    report(unisono.run_elastic(state, step))
"""

ONE_BY_ONE = """
with unisono.Context(timeout=60):
    group = unisono.world()
    has_failed, has_changed = False, True
    while not (state.sizes and is_done(SIZE)) or has_changed:
        try:
            if has_failed:
                group = unisono.shrink_group(group)
                has_failed, has_changed = False, True
            if has_changed: unisono.synchronize(state, group)
            has_changed = False
            if unisono.newcomers_waiting(group):
                before, group = group, unisono.grow_group(group)
                assert group != before and group == unisono.world() and group.size() > before.size(), (before, group)
                has_changed = True
            elif not (state.sizes and is_done(SIZE)):
                train(group)
        except unisono.PeerFailed:
            has_failed = True
    report(group)
"""


class Elastic(jobs.JobTest):
    def job(self, ranks, restarts, program, expect=0, size=3, moment="before", victims=(), step=12, lowest=0):
        """The output, and what each rank has reported."""
        names = f"SIZE, MOMENT, VICTIMS, STEP, LOWEST = {size}, {moment!r}, {set(victims)}, {step}, {lowest}\n"
        options = ("--max-restarts", str(restarts))
        output = self.ranks(names + TRAINING + program, ranks, expect, options=options, grace=3, UNISONO_TIMEOUT="60")
        return output, re.findall(r"place (\d+\.\d+) as (\d+) of (\d+): (\w+) after (\d+), (\w+), \[(.*)\]", output)

    def alike(self, output, reports, places, sizes):
        """All ranks have the same bits, which are the right ones, and the same account of the job."""
        self.assertEqual(sorted(place for place, *_ in reports), places, output)
        self.assertEqual(sorted(int(rank) for _, rank, *_ in reports), list(range(len(places))), output)
        self.assertEqual({right for _, _, _, right, *_ in reports}, {"True"}, output)
        self.assertEqual(len({tuple(rest) for _, _, size, _, *rest in reports}), 1, output)
        self.assertEqual((reports[0][2], reports[0][-1]), (str(len(places)), sizes), output)

    @covers("TS-50")
    def test_a_lost_rank_is_replaced(self):
        for moment, victim in (("before", 1), ("behind", 0), ("behind", 2)):
            with self.subTest(moment=moment, victim=victim):
                output, reports = self.job("2:3", 4, LOOP, moment=moment, victims={victim})
                self.alike(output, reports, sorted(f"{place}.{int(place == victim)}" for place in range(3)), "3, 2, 3")

    def test_two_ranks_lost_at_once_are_replaced(self):
        output, reports = self.job("1:3", 4, LOOP, victims={0, 1})
        self.assertEqual(sorted(place for place, *_ in reports), ["0.1", "1.1", "2.0"], output)
        self.alike(output, reports, ["0.1", "1.1", "2.0"], reports[0][-1])

    @covers("TS-21")
    def test_the_calls_one_by_one_do_what_run_elastic_does(self):
        output, reports = self.job("2:3", 4, ONE_BY_ONE, victims={1})
        self.alike(output, reports, ["0.0", "1.1", "2.0"], "3, 2, 3")

    def test_the_others_go_on_without_a_lost_rank(self):
        for program in (LOOP, ONE_BY_ONE):
            output, reports = self.job("2:3", 0, program, size=2, victims={0})
            self.alike(output, reports, ["1.0", "2.0"], "3, 2")

    def test_the_job_ends_when_too_few_are_left(self):
        output, reports = self.job("3:3", 0, LOOP, expect=None, victims={1})
        self.assertEqual(reports, [], output)
        self.assertIn("SIGKILL", output)

    def test_an_exception_in_the_step_ends_its_rank_alone(self):
        """It passes through run_elastic and ends its rank; the others go on."""
        failing = LOOP.replace("        train(group)\n", '        if place == 1 and state.step == 5: raise ValueError("bad data")\n        train(group)\n')
        output, reports = self.job("2:3", 0, failing, size=2)
        self.alike(output, reports, ["0.0", "2.0"], "3, 2")
        self.assertRegex(output, r"\[1\].*ValueError: bad data")

    def test_a_loss_met_by_another_group_is_recovered_from(self):
        """Only a call of another group meets the loss: all members come to shrink_group by it."""
        inside = LOOP.replace("        train(group)\n", "        half = unisono.split_group(group, 0)\n        die('inside', STEP, VICTIMS)\n"
                                                          "        unisono.barrier(half)\n        train(group)\n")
        output, reports = self.job("2:3", 4, inside, moment="inside", victims={2})
        self.alike(output, reports, ["0.0", "1.0", "2.1"], "3, 2, 3")

    def test_ranks_that_import_at_the_same_time_do_not_deadlock(self):
        """The thread that imports a module of the package gives the interpreter's lock up meanwhile, and the next one needs the module as well."""
        self.alone(
            """
        import threading
        importing, another = threading.Event(), threading.Event()
        class Slow:
            def find_spec(self, name, path, target=None):
                if name == "unisono._elastic":
                    self.thread = threading.get_ident()
                    importing.set()
                    another.wait()
        slow = Slow()
        sys.meta_path.insert(0, slow)
        sys.setswitchinterval(1000)
        class OfADevice:
            def __init__(self): self.elements = np.zeros(3)
            @property
            def __cuda_array_interface__(self):
                if importing.is_set() and threading.get_ident() != slow.thread: another.set()
                return {"shape": (3,), "typestr": "<f8", "data": (0x7F0000000000, False), "version": 3}
            def get(self): return self.elements.copy()
            def set(self, host): self.elements[...] = host
        def rank(r):
            state = unisono.ElasticState(x=OfADevice())
            state.x.elements[:] = r
            state.step = r
            unisono.synchronize(state)
            assert state.x.elements.tolist() == [1, 1, 1], state.x.elements
        unisono.run_threads(2, rank)
        assert importing.is_set() and another.is_set()
        """
        )

    def test_a_failure_that_costs_no_member_is_raised_as_itself(self):
        """It is raised, as itself, once it is clear that no member fails."""
        self.alone("""
        calls = []
        def step(group):
            calls.append(unisono.PeerFailed("of the program"))
            raise calls[-1]
        with unisono.Context():
            try: unisono.run_elastic(unisono.ElasticState(), step)
            except unisono.PeerFailed as error: assert error is calls[-1] and 1 < len(calls) < 10, calls
            else: sys.exit(1)
        """)


if __name__ == "__main__":
    if not UNISONO:
        sys.exit("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")
    unittest.main()
