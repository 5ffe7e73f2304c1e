"""Tensors on the workers of a controller in Python: torch.device("remote:1")."""

import copy
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

import torch
import unisono
import unisono.torch  # noqa: F401  (an installed package is found by torch itself)
from covers import covers

torch.set_num_threads(1)


def total(tensor):
    assert tensor.device.type == "cpu"
    return tensor.sum().item()


def add(tensor, number):
    tensor.add_(number)


def pid():
    return os.getpid()


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(),
                               torch.nn.Linear(16, 5))


def train(device, make, steps=4):
    """The losses, and the model's state on the cpu."""
    model = network().to(device)
    optimizer = make(model.parameters())
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        images, labels = torch.randn(6, 3, 8, 8), torch.randint(5, (6,))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses], {name: value.cpu() for name, value in model.state_dict().items()}


class Remote(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workers = unisono.Controller(workers=2)

    @classmethod
    def tearDownClass(cls):
        cls.workers.close()

    def same(self, remote, local):
        self.assertEqual(remote.device.type, "remote")
        self.assertEqual(remote.dtype, local.dtype)
        self.assertTrue(torch.equal(remote.cpu(), local), f"{remote.cpu()} instead of {local}")

    @covers("T-14")
    def test_a_tensor_is_made_and_computed_on_its_worker(self):
        x = torch.zeros(3, device="remote:1")
        self.assertEqual(x.device, torch.device("remote:1"))
        self.same(x + 1, torch.ones(3))
        self.same(self.workers[0].tensor(torch.arange(5)), torch.arange(5))
        self.same(torch.arange(6.0).reshape(2, 3).to("remote:0").t()[1:] * 2, torch.arange(6.0).reshape(2, 3).t()[1:] * 2)
        self.same(x.to("remote:0"), torch.zeros(3))
        self.assertNotEqual(self.workers[1].call(pid).result(), os.getpid())

    def test_the_current_device_is_that_of_the_scope(self):
        with torch.remote.device(1):
            self.assertEqual(torch.ones(2, device="remote").device.index, 1)
        self.assertEqual(torch.ones(2, device="remote").device.index, 0)
        with torch.device("remote:1"):
            self.assertEqual(torch.ones(2).device.index, 1)
        self.assertEqual(torch.remote.device_count(), 2)
        self.assertTrue(torch.remote.is_available())

    def test_shapes_that_depend_on_elements_are_asked_for(self):
        local = torch.tensor([3, 0, 3, 5])
        x = local.to("remote:1")
        self.same(x.nonzero(), local.nonzero())
        self.same(x[x > 0], local[local > 0])
        self.same(x.unique(), local.unique())
        x[x == 3] = 7
        self.same(x, torch.tensor([7, 0, 7, 5]))
        self.assertEqual(x.max().item(), 7)
        self.assertEqual(str(x), "tensor([7, 0, 7, 5], device='remote:1')")

    @covers("T-14")
    def test_a_network_is_trained_as_by_one_process(self):
        for make in (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=False), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
                     lambda p: torch.optim.AdamW(p, 0.01, foreach=False)):
            losses, state = train("cpu", make)
            remote_losses, remote_state = train("remote:1", make)
            self.assertEqual(remote_losses, losses)
            self.assertEqual(list(remote_state), list(state))
            for name in state:
                self.assertTrue(torch.equal(remote_state[name], state[name]), name)

    def test_state_is_saved_and_loaded(self):
        model = network().to("remote:0")
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "step": 3}, file)
        for place, device in ((None, "remote:0"), ("cpu", "cpu"), ("remote:1", "remote:1")):
            file.seek(0)
            loaded = torch.load(file, map_location=place)
            self.assertEqual(loaded["step"], 3)
            self.assertEqual(loaded["model"]["0.weight"].device, torch.device(device))
            other = network().to(device)
            with torch.no_grad():
                other[0].weight.zero_()
            other.load_state_dict(loaded["model"])
            self.assertTrue(torch.equal(other[0].weight.cpu(), model[0].weight.cpu()))
        x = torch.arange(6.0, device="remote:1")
        file = io.BytesIO()
        torch.save([x, x[2:4]], file)
        file.seek(0)
        whole, part = torch.load(file)
        part.zero_()
        self.same(whole, torch.tensor([0.0, 1.0, 0.0, 0.0, 4.0, 5.0]))
        self.same(pickle.loads(pickle.dumps(x)), torch.arange(6.0))
        twin = copy.deepcopy(model)
        with torch.no_grad():
            twin[0].weight.zero_()
        self.assertNotEqual(model[0].weight.abs().sum().item(), 0)

    def test_random_numbers_follow_the_seed(self):
        torch.manual_seed(5)
        first = torch.randn(4, device="remote:1")
        torch.manual_seed(5)
        self.same(first, torch.randn(4))
        state = torch.remote.get_rng_state(1)
        second = torch.rand(3, device="remote:1")
        torch.remote.set_rng_state(state, 1)
        self.same(torch.rand(3, device="remote:1"), second.cpu())
        generator = torch.Generator(device="remote:0").manual_seed(9)
        self.same(torch.rand(3, device="remote:0", generator=generator), torch.rand(3, generator=torch.Generator().manual_seed(9)))

    def test_a_tensor_in_a_call_is_the_one_that_the_worker_has(self):
        x = torch.ones(4, device="remote:1")
        self.workers[1].call(add, x, 2)
        self.assertEqual(self.workers[1].call(total, x).result(), 12)
        self.same(x, torch.full((4,), 3.0))
        with self.assertRaisesRegex(unisono.InvalidArgument, "a tensor on remote:1 was sent to worker 0"):
            self.workers[0].call(total, x).result()

    @covers("T-14")
    def test_tensors_on_all_workers_have_the_collectives(self):
        ones = self.workers.tensor(torch.ones(2, 3))
        self.same(ones.all_reduce()[1], torch.full((2, 3), 2.0))
        each = torch.remote.Tensors(torch.full((2,), float(i), device=f"remote:{i}") for i in range(2))
        self.same(each.all_gather()[0], torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
        self.same(each.reduce_scatter("max")[1], torch.tensor(1.0))
        self.same(each.all_to_all()[0], torch.tensor([0.0, 1.0]))
        self.same(each.broadcast(1)[0], torch.ones(2))
        self.same(each.reduce(0, "prod")[0], torch.ones(2))
        self.assertEqual([x.device.type for x in each.cpu()], ["cpu", "cpu"])
        with self.assertRaisesRegex(RuntimeError, "there are 1 tensors for 2 workers"):
            torch.remote.Tensors([each[0]]).all_reduce()

    def test_an_error_names_operator_worker_and_shapes(self):
        x = torch.ones(2, 3, device="remote:1")
        with self.assertRaisesRegex(RuntimeError, r"operator aten::mm on worker 1 failed.*Float\[2, 3\]"):
            x.mm(x)
        wrong = x.index_select(1, torch.tensor([7], device="remote:1"))
        self.assertEqual(wrong.shape, (2, 1))
        with self.assertRaisesRegex(RuntimeError, "operator aten::index_select on worker 1 failed"):
            torch.remote.synchronize("remote:1")
        with self.assertRaisesRegex(RuntimeError, "aten::index_select"):
            (wrong + 1).cpu()
        with self.assertRaisesRegex(RuntimeError, "its tensors are on remote:1 and remote:0"):
            x + torch.ones(2, 3, device="remote:0")
        with self.assertRaisesRegex(RuntimeError, "there is no device remote:2: the controller has 2 workers"):
            torch.ones(2, device="remote:2")
        with self.assertRaisesRegex(RuntimeError, "there is no pointer to them here"):
            x.data_ptr()
        self.same(x, torch.ones(2, 3))


class Life(unittest.TestCase):
    def test_a_dead_worker_is_named_and_the_other_goes_on(self):
        with unisono.Controller(workers=2) as workers:
            x, y = (torch.ones(3, device=f"remote:{i}") for i in range(2))
            os.kill(workers[0].call(pid).result(), signal.SIGKILL)
            with self.assertRaisesRegex(RuntimeError, "worker 0"):
                (x + 1).cpu()
            self.assertEqual((y + 1).sum().item(), 6)

    def test_a_worker_without_pytorch_says_what_is_missing(self):
        program = """
        import sys
        if __name__ == "__main__":
            import torch, unisono.torch
        else:
            sys.modules["torch"] = None     # as if it were not installed for the worker
        import unisono

        def count(text): return len(text)

        if __name__ == "__main__":
            with unisono.Controller(workers=1) as workers:
                x = torch.ones(3, device="remote:0") + 1
                try: x.cpu()
                except RuntimeError as error: print("told:", error)
                print(workers.call(count, "abc").result())
        """
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(textwrap.dedent(program))
            file.flush()
            done = subprocess.run([sys.executable, file.name], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"told: .*worker 0: .*need unisono.torch and PyTorch on this worker, .*: ModuleNotFoundError: .*torch")
        self.assertIn("[3]\n", done.stdout)

    def test_a_tensor_that_outlives_its_controller_says_so(self):
        with unisono.Controller(workers=1) as workers:
            x = workers[0].tensor(torch.ones(3))
        with self.assertRaisesRegex(RuntimeError, "the controller has ended"):
            x.cpu()
        with self.assertRaisesRegex(RuntimeError, "the controller has ended"):
            torch.ones(3, device="remote:0")
        self.assertFalse(torch.remote.is_available())


if __name__ == "__main__":
    unittest.main()
