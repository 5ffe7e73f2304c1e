"""What the tests of an elastic job's state have in common."""

import unisono
from ranks import RankTest


class Counter:
    """Keeps its identity, as a sampler does."""

    def __init__(self, n):
        self.n = n

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


class StateTest(RankTest):
    def setUp(self):
        super().setUp()
        self.last = self.size - 1

    def synchronized(self, state, source=None):
        """The last rank has come furthest."""
        source = self.last if source is None else source
        state.step = 7 if self.rank == source else self.rank - self.size
        self.assertEqual(unisono.synchronize(state), source)
        self.assertEqual(state.step, 7)

    def usable(self):
        self.assertEqual(unisono.all_reduce(1), self.size)
