"""The names of an elastic job's state, what is refused, what fails half way, and the loop where nobody is lost."""

import copy
import gc
import pickle
import weakref

import numpy as np

import unisono
from elastic_ranks import Counter, StateTest
from ranks import distinct, main


class Unpicklable:
    def __reduce__(self):
        raise TypeError("this one stays here")


class Unreadable:
    """Cannot be read on one rank."""

    def __init__(self, reader):
        self.reader = reader

    def __reduce__(self):
        return _arrive, (self.reader,)


def _arrive(reader):
    if unisono.rank() == reader:
        raise ImportError("no such class here")
    return "arrived"


class Names(StateTest):
    def test_what_is_listed_is_an_attribute(self):
        x = np.ones(3)
        state = unisono.ElasticState(x=x, losses=[], best=0.5, nothing=None)
        self.assertTrue(state.x is x and state["x"] is x and state.step == 0)
        self.assertIsNone(state.nothing)
        state.x -= 0.5
        state.losses.append(2)
        state.best = "good"
        state["nothing"] = 1
        self.assertIs(state.x, x)
        self.assertEqual((x.tolist(), state.losses, state.best, state.nothing), ([0.5] * 3, [2], "good", 1))
        state.x = state.x + 1  # another array in its place
        self.assertTrue(state.x is not x and state.x.tolist() == [1.5] * 3)
        state.buffer("0.weight", x)
        self.assertTrue("0.weight" in state and "weight" not in state and state["0.weight"] is x)
        self.assertEqual(repr(state), "<unisono.ElasticState of step 0: x losses best nothing 0.weight>")
        state.step += 2
        self.assertEqual(state.step, 2)

    def test_unknown_names_are_refused(self):
        state = unisono.ElasticState(x=np.ones(3), counter=Counter(1))
        state.buffer("function", lambda: state.x).bytes("bytes of mine", bytes, lambda data: None)
        for what in (lambda: state.y, lambda: setattr(state, "y", 1)):
            self.refused(AttributeError, 'lists no "y"', what)
        for what in (lambda: state["y"], lambda: state.__setitem__("y", 1)):
            self.refused(KeyError, "y", what)
        self.refused(AttributeError, "", setattr, state, "buffer", 1)
        self.refused(TypeError, "", setattr, state, "step", "far")
        self.assertFalse(hasattr(state, "y"))
        for name, value, text in (("x", 3, "a buffer is meant"), ("x", bytes(3), "read-only"), ("counter", {}, "without state_dict"),
                                  ("function", np.ones(3), "listed by functions"), ("bytes of mine", b"", "listed by functions")):
            self.refused(unisono.InvalidArgument, text, state.__setitem__, name, value)
        self.assertEqual((state.x.tolist(), state.counter.n), ([1.0] * 3, 1))

    def test_a_thing_that_cannot_be_listed_is_refused(self):
        state = unisono.ElasticState(x=np.ones(3))
        frozen = np.ones(3)
        frozen.setflags(write=False)
        for call, text in (
            (lambda: state.object("x", 1), '"x" is listed already'),
            (lambda: state.buffer("x", np.ones(3)), '"x" is listed already'),
            (lambda: state.bytes("x", bytes, bytes), '"x" is listed already'),
            (lambda: state.object("step", 1), '"step" is what each ElasticState has itself'),
            (lambda: unisono.ElasticState(bytes=b""), '"bytes" is what each ElasticState has itself'),
            (lambda: state.object("", 1), "must have a name"),
            (lambda: state.buffer("y", 1.5), "a buffer is meant, and this is a float"),
            (lambda: state.buffer("y", None), "a buffer is meant, and this is a NoneType"),
            (lambda: state.buffer("y", [np.ones(3)]), "a buffer is meant, and this is a list"),
            (lambda: state.buffer("y", np.array(["a"])), "no operation is on elements"),
            (lambda: state.buffer("y", frozen), "read-only"),
            (lambda: state.buffer("y", np.ones(3), "done"), "a str stands where the function is meant"),
            (lambda: state.bytes("y", b"", bytes), "a function that writes"),
            (lambda: state.bytes("y", bytes, None), "a function that writes"),
        ):
            self.refused(unisono.InvalidArgument, text, call)
        self.refused(TypeError, "", state.object, 3, 1)
        self.refused(TypeError, "", unisono.ElasticState, np.ones(3))
        self.assertEqual(repr(state), "<unisono.ElasticState of step 0: x>")
        # What cannot be written to is an object, of which another one takes the place.
        state = unisono.ElasticState(frozen=frozen)
        state.frozen = np.full(3, self.rank)
        self.synchronized(state)
        self.same(state.frozen, [self.last] * 3)

    def test_a_state_is_of_this_process(self):
        state = unisono.ElasticState(x=1)
        for what in (pickle.dumps, copy.copy):
            self.refused(TypeError, "ElasticState", what, state)

    def test_a_subclass_has_attributes_and_methods_of_its_own(self):
        class Training(unisono.ElasticState):
            def __init__(self, rank):
                super().__init__(weights=np.full(3, rank))
                self.rate = 0.5  # this one is not listed

            def mean(self):
                return self.weights.mean()

        state = Training(self.rank)
        self.synchronized(state)
        self.assertEqual((state.mean(), state.rate, "rate" in state), (self.last, 0.5, False))

    def test_a_state_that_its_own_object_refers_to_is_collected(self):
        state = unisono.ElasticState(counter=Counter(1))
        state.counter.owner = state
        state.bytes("own", lambda: state.counter.n, lambda data: state)
        counter = weakref.ref(state.counter)
        del state
        gc.collect()
        self.assertIsNone(counter())


class Failures(StateTest):
    """What a member cannot take part in changes nothing on any of them, and the group goes on."""

    def fails(self, state, own, theirs, culprit):
        before = {name: copy.deepcopy(state[name]) for name in ("x", "n")}
        state.step = self.rank
        if self.rank == culprit:
            self.refused(own[0], own[1], unisono.synchronize, state)
        else:
            error = self.refused(unisono.InvalidArgument, theirs, unisono.synchronize, state)
            self.assertEqual((error.operation, error.culprit), ("synchronize", culprit))
        self.same(state.x, before["x"])
        self.assertEqual((state.n, state.step), (before["n"], self.rank))
        self.usable()

    def state(self):
        return unisono.ElasticState(x=self.mine(5), n=[self.rank])

    def test_an_object_that_cannot_be_written_is_an_error_on_every_rank(self):
        self.fails(self.state().object("y", Unpicklable()), (TypeError, "this one stays here"), "TypeError: this one stays here", self.last)

    def test_an_object_that_cannot_be_read_is_an_error_on_every_rank(self):
        if self.size > 1:
            state = self.state().object("y", Unreadable(0))
            self.fails(state, (ImportError, "no such class here"), "ImportError: no such class here", 0)

    def test_a_buffer_that_cannot_be_had_is_an_error_on_every_rank(self):
        def view():
            raise KeyError("gone")

        first = self.rank == 0
        self.fails(self.state().buffer("y", view if first else np.ones(1)), (KeyError, "gone"), "KeyError: 'gone'", 0)
        self.fails(self.state().buffer("y", (lambda: "text") if first else np.ones(1)), (unisono.InvalidArgument, "a buffer is meant"), "this is a str", 0)

    def test_functions_that_return_something_else_are_named(self):
        state = self.state().bytes("y", lambda: "text", bytes)
        self.fails(state, (unisono.InvalidArgument, 'that writes "y" returned a str'), "returned a str", self.last)
        if self.size > 1:
            state = self.state().bytes("y", lambda: b"text", lambda data: data if self.rank == 0 else None)
            self.fails(state, (unisono.InvalidArgument, 'that reads "y" returned a bytes'), "returned a bytes", 0)

    def test_states_that_differ_are_a_mismatch_on_all_ranks(self):
        if self.size == 1:
            return
        differs = self.rank == self.last
        for one, other, text in (
            (np.ones(5, "f4"), np.ones(4, "f4"), 'buffer "y" of 4 float32'),
            (np.ones(5, "f4"), np.ones(5, "f8"), 'buffer "y" of 5 float64'),
            (np.ones(5), [1] * 5, 'buffer "y" of 5 float64'),
            (Counter(1), {"n": 1}, 'object "y" (the state_dict of an object of Python'),
        ):
            state = self.state()
            own = other if differs else one
            (state.buffer if isinstance(own, np.ndarray) else state.object)("y", own)
            state.step = self.rank
            error = self.refused(unisono.Mismatch, text, unisono.synchronize, state)
            if self.size > 2:
                self.assertEqual(error.culprit, self.last)
            self.same(state.x, self.mine(5))
            self.assertEqual((state.n, state.step), ([self.rank], self.rank))
            self.usable()
        state = unisono.ElasticState(x=1)
        if differs:
            state.object("z", 1)
        self.refused(unisono.Mismatch, 'object "z"', unisono.synchronize, state)
        self.usable()


class RunElastic(StateTest):
    def test_the_step_is_called_until_it_is_done(self):
        state = unisono.ElasticState(x=self.mine(5), sums=[self.rank])
        groups = []

        def step(group):
            groups.append(group)
            if state.step == 4:
                return False
            total = unisono.all_reduce(self.rank + state.step, group=group)
            state.sums.append(total)
            state.step += 1
            return True

        last = unisono.run_elastic(state, step)
        self.assertEqual([last, *groups], [unisono.world()] * 6)
        ranks = self.size * self.last // 2
        self.assertEqual(state.sums, [0, *(ranks + self.size * step for step in range(4))])
        self.same(state.x, distinct(0, 5))
        for done in (False, np.False_, 0):
            self.assertEqual(unisono.run_elastic(state, lambda group, done=done: done), unisono.world())

    def test_an_exception_passes_through(self):
        for error in (ValueError("bad data"), KeyboardInterrupt(), SystemExit(3), unisono.Timeout("late"), StopIteration()):
            def step(group, error=error):
                raise error

            with self.assertRaises(type(error)) as caught:
                unisono.run_elastic(unisono.ElasticState(), step)
            self.assertIs(caught.exception, error)
            self.usable()

    def test_what_is_no_step(self):
        self.refused(unisono.InvalidArgument, "the step is a function", unisono.run_elastic, unisono.ElasticState(), True)
        self.refused(unisono.InvalidArgument, "the step returned None", unisono.run_elastic, unisono.ElasticState(), lambda group: None)
        self.refused(TypeError, "", unisono.run_elastic, {}, lambda group: False)
        self.usable()

    def test_nobody_waits_here(self):
        self.assertIs(unisono.newcomers_waiting(), False)
        self.assertEqual(unisono.grow_group(unisono.world()), unisono.world())
        part = unisono.new_group()
        self.refused(unisono.InvalidArgument, "", unisono.newcomers_waiting, part)
        self.refused(unisono.InvalidArgument, "", unisono.grow_group, part)
        self.refused(unisono.InvalidArgument, "where the group is meant", unisono.newcomers_waiting, 3)
        self.usable()


if __name__ == "__main__":
    main()
