"""What all members of an elastic job have alike: buffers, objects, and what the program writes itself."""

import array
import importlib.util
import threading
import unittest

import numpy as np

import unisono
from elastic_ranks import Counter, StateTest
from ranks import DTYPES, distinct, main

has = importlib.util.find_spec


class ArrayOfAGpu:
    """Elements whose address says nothing here, with the two calls of CuPy that copy them."""

    def __init__(self, elements):
        self.elements = elements
        self.__cuda_array_interface__ = {"shape": elements.shape, "typestr": elements.dtype.str, "data": (0x7F0000000000, False), "version": 3}

    def get(self):
        return self.elements.copy()

    def set(self, host):
        self.elements[...] = host


class TensorOfAGpu(ArrayOfAGpu):
    """The same with the calls of PyTorch."""

    get = set = None

    def detach(self):
        return self

    def cpu(self):
        return self.elements.copy()

    def copy_(self, host):
        self.elements[...] = host


class Synchronize(StateTest):
    def test_the_most_steps_count(self):
        for source in range(self.size):
            state = unisono.ElasticState(x=self.mine(1009))
            state.step = 7 if self.rank >= source else -1 - self.rank  # of several the lowest rank
            self.assertEqual(unisono.synchronize(state), source)
            self.assertEqual(state.step, 7)
            self.same(state.x, distinct(source, 1009))

    def test_buffers_of_every_kind_become_those_of_the_source(self):
        for source in range(self.size):
            whole = {dtype: self.mine((3, 5), dtype) for dtype in DTYPES}
            grid = self.mine((6, 8))
            outside = grid[1::2].copy()
            other = {
                "transposed": np.asfortranarray(self.mine((4, 3))),
                "gaps": grid[::2, 1::3],
                "number": np.array(self.rank + 0.5),
                "none": np.empty((0, 3)),
                "octets": bytearray([self.rank] * 11),
                "ints": array.array("q", [self.rank, -self.rank]),
                "view": memoryview(bytearray([self.rank + 1] * 5)),
            }
            state = unisono.ElasticState(**whole, **other)
            self.synchronized(state, source)
            for dtype in DTYPES:
                self.assertIs(state[dtype], whole[dtype])
                self.same(whole[dtype], distinct(source, (3, 5), dtype), dtype)
            self.same(other["transposed"], distinct(source, (4, 3)))
            self.same(grid[::2, 1::3], distinct(source, (6, 8))[::2, 1::3])
            self.same(grid[::2, ::3], self.mine((6, 8))[::2, ::3], "between the gaps")
            self.same(grid[1::2], outside)
            self.assertEqual((float(other["number"]), other["octets"]), (source + 0.5, bytearray([source] * 11)))
            self.assertEqual((list(other["ints"]), bytes(other["view"])), ([source, -source], bytes([source + 1] * 5)))
            other["octets"].extend(b"more")  # BufferError where somebody still has it

    def test_objects_of_every_kind_become_those_of_the_source(self):
        for source in range(self.size):
            rank = self.rank
            numbers, names, seen = [rank] * rank, {"rank": rank, rank: "name"}, {rank, "all"}
            inner = {"deep": [rank]}
            state = unisono.ElasticState(
                numbers=numbers, names=names, seen=seen, inner=inner, best=rank + 0.25, text="é" * (rank * 40_000), nothing=None if rank else 0,
                pair=(rank, np.arange(20_000) * (rank + 1.5)), chance=np.random.default_rng(rank), words=np.array(["a" * (rank + 1), "b"]),
            )
            state.object("large number", 2**100 + rank)
            self.synchronized(state, source)
            # Other names of the program's for a list, dict or set still mean it.
            self.assertEqual((numbers, names, seen), ([source] * source, {"rank": source, source: "name"}, {source, "all"}))
            self.assertTrue(state.numbers is numbers and state.names is names and state.seen is seen and state.inner is inner)
            self.assertEqual((inner, state.best, state.text), ({"deep": [source]}, source + 0.25, "é" * (source * 40_000)))
            self.assertEqual((state.nothing, state["large number"]), (None if source else 0, 2**100 + source))
            self.assertEqual(state.pair[0], source)
            self.same(state.pair[1], np.arange(20_000) * (source + 1.5))
            self.assertEqual(state.chance.integers(1 << 60), np.random.default_rng(source).integers(1 << 60))
            self.assertEqual(state.words.tolist(), ["a" * (source + 1), "b"])

    def test_an_object_with_a_state_dict_loads_that_of_the_source(self):
        counter = Counter(self.rank)
        state = unisono.ElasticState(counter=counter)
        self.synchronized(state)
        self.assertIs(state.counter, counter)
        self.assertEqual(counter.n, self.last)

    def test_functions_of_the_program_write_and_read_bytes(self):
        text, written, put, done = ["x" * (1 + self.rank)], [], [], []
        elsewhere = self.mine(7)
        copies = []

        def view():
            copies.append(elsewhere.copy())
            return copies[-1]

        def finish(is_new):
            done.append(is_new)
            if is_new:
                elsewhere[:] = copies[-1]

        def write():
            written.append(True)
            return text[0].encode()

        def read(data):
            return lambda: put.append(data.decode())

        state = unisono.ElasticState()
        self.assertIs(state.buffer("elsewhere", view, finish).bytes("text", write, read), state)
        state.bytes("unused", lambda: memoryview(b""), lambda data: None)
        self.synchronized(state)
        self.same(elsewhere, distinct(self.last, 7))
        is_source = self.rank == self.last
        self.assertEqual((done, len(copies)), ([not is_source], 1))
        self.assertEqual((written, put), ([True], []) if is_source else ([], ["x" * (1 + self.last)]))

    def test_buffers_on_a_device_travel_through_the_host(self):
        cupy, torch = ArrayOfAGpu(self.mine(5, "float32")), TensorOfAGpu(self.mine((2, 3)))
        state = unisono.ElasticState(cupy=cupy, torch=torch)
        self.synchronized(state)
        self.same(cupy.elements, distinct(self.last, 5, "float32"))
        self.same(torch.elements, distinct(self.last, (2, 3)))

        class OfNoKnownLibrary:
            __cuda_array_interface__ = cupy.__cuda_array_interface__

        error = self.refused(unisono.Unsupported, 'buffer "x" lies on a device', unisono.synchronize, unisono.ElasticState(x=OfNoKnownLibrary()))
        self.assertIn("copy it to the host", error.hint)
        self.usable()

    def test_synchronize_works_on_a_group_and_is_a_barrier_without_a_state(self):
        half = unisono.split_group(unisono.world(), self.rank % 2)
        state = unisono.ElasticState(n=self.rank)
        state.step = self.rank
        self.assertEqual(unisono.synchronize(state, half), half.size() - 1)
        self.assertEqual(state.n, half.global_rank(half.size() - 1))
        self.assertEqual(unisono.synchronize(state=state, group=half), 0)
        for barrier in (unisono.synchronize, lambda: unisono.synchronize(half), lambda: unisono.synchronize(group=half), lambda: unisono.synchronize(None)):
            self.assertIsNone(barrier())
        self.refused(unisono.InvalidArgument, "where the group is meant", unisono.synchronize, 3)
        self.refused(unisono.InvalidArgument, "where the group is meant", unisono.synchronize, state, "world")

    def test_the_interpreter_goes_on_while_it_waits(self):
        if self.size == 1 or threading.current_thread() is not threading.main_thread():
            return  # what a thread of run_threads starts is no rank
        beside = unisono.new_group()
        word = np.zeros(1)
        if self.rank == self.last:
            unisono.recv(word, 0, beside)  # from rank 0 that waits for this one in the other group
            unisono.synchronize(unisono.ElasticState(x=word))
            return
        has_begun = threading.Event()

        def view():
            has_begun.set()
            return word

        def send():
            has_begun.wait()
            unisono.send(np.ones(1), self.last, beside)

        sender = threading.Thread(target=send)
        if self.rank == 0:
            sender.start()
        state = unisono.ElasticState().buffer("x", view)
        state.step = -1
        unisono.synchronize(state)
        if self.rank == 0:
            sender.join()


@unittest.skipUnless(has("torch"), "PyTorch is not installed")
class Torch(StateTest):
    def setUp(self):
        super().setUp()
        import torch

        self.torch = torch

    def training(self, rank):
        torch = self.torch
        generator = torch.Generator().manual_seed(rank)
        model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
        with torch.no_grad():
            for x in model.parameters():
                x.copy_(torch.rand(x.shape, generator=generator))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * (rank + 1))
        for step in range(rank):
            self.step(model, optimizer, step)
        return model, optimizer

    def step(self, model, optimizer, step):
        optimizer.zero_grad()
        model(self.torch.linspace(0, step + 1, 24).reshape(4, 6)).square().sum().backward()
        optimizer.step()

    def alike(self, one, other):
        for (name, x), y in zip(one.state_dict().items(), other.state_dict().values()):
            self.assertTrue(self.torch.equal(x, y), name)

    def test_a_model_and_its_optimizer_become_those_of_the_source(self):
        for source in {0, self.last}:  # rank 0 has not begun: its optimizer has no state yet
            for by_buffers in (False, True):
                model, optimizer = self.training(self.rank)
                state = unisono.ElasticState(optimizer=optimizer)
                if by_buffers:
                    for name, x in model.state_dict().items():
                        state.buffer(name, x)
                else:
                    state.object("model", model)
                self.synchronized(state, source)
                expected, its_optimizer = self.training(source)
                self.alike(model, expected)
                self.assertEqual(optimizer.param_groups[0]["lr"], 0.01 * (source + 1))
                for step in range(2):  # the next steps have the same bits
                    self.step(model, optimizer, step)
                    self.step(expected, its_optimizer, step)
                self.alike(model, expected)

    def test_tensors_become_those_of_the_source(self):
        torch = self.torch
        x = torch.nn.Parameter(torch.full((2, 3), self.rank + 0.5))
        half = torch.full((7,), self.rank, dtype=torch.bfloat16)
        turned = torch.full((3, 4), self.rank).t()
        self.synchronized(unisono.ElasticState(x=x, half=half, turned=turned))
        self.assertTrue(torch.equal(x.detach(), torch.full((2, 3), self.last + 0.5)) and x.requires_grad)
        self.assertTrue(torch.equal(half, torch.full((7,), self.last, dtype=torch.bfloat16)))
        self.assertTrue(torch.equal(turned, torch.full((4, 3), self.last)))


if __name__ == "__main__":
    main()
