"""unisono.ignite's loaders, models, optimizers and samplers for many ranks, each of which is played by this process; SyncBatchNorm in a job; and the files in
which jobs meet."""

import importlib.util
import logging
import shutil
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

from covers import covers
from jobs import JobTest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("unisono.torch") is None:
    print("skipped: the package torch or unisono-torch is missing")
    raise SystemExit(0)

import torch
from torch.utils.data import BatchSampler, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler, TensorDataset, WeightedRandomSampler

import unisono
import unisono.ignite as idist
from unisono.ignite import _meeting, auto
from unisono.ignite.comp_models import xla

DATA = TensorDataset(torch.arange(101))


def as_rank(rank, size, per_node=None, device="cpu"):
    """This process is that rank of so many, as far as the adaptors can see."""
    return mock.patch.multiple(auto.idist, get_rank=lambda: rank, get_world_size=lambda: size, get_nproc_per_node=lambda: per_node or size,
                               device=lambda: torch.device(device))


def loader(size, data=DATA, rank=0, per_node=None, **how):
    with as_rank(rank, size, per_node):
        return idist.auto_dataloader(data, **how)


class Loaders(unittest.TestCase):
    @covers("A-01", "A-02", "A-03", "A-04", "K-41", "C-19", "Q-20", "W-12")
    def test_batch_sizes_are_shared_out_as_the_split_says(self):
        for size, total, each in ((1, 32, 32), (4, 32, 8), (8, 32, 4), (8, 30, 3), (8, 16, 2), (8, 1, 1), (4, 3, 3)):
            self.assertEqual(loader(size, batch_size=total, shuffle=False).batch_size, each, (size, total))
        self.assertEqual(loader(8, shuffle=False).batch_size, 1)
        self.assertEqual([loader(4, rank=rank, batch_size=30, shuffle=False, batch_split="even_remainder").batch_size for rank in range(4)], [8, 8, 7, 7])
        self.assertEqual(loader(4, batch_size=30, shuffle=False, batch_split="per_rank").batch_size, 30)
        self.assertRaises(ValueError, loader, 4, batch_split="half")

    @covers("A-05", "A-06", "A-13", "A-16")
    def test_workers_are_shared_out_and_other_arguments_passed_on(self):
        self.assertEqual([loader(8, per_node=4, num_workers=n, shuffle=False).num_workers for n in (10, 4, 3, 0)], [3, 1, 3, 0])
        dropping = loader(8, batch_size=32, shuffle=False, drop_last=True)
        self.assertEqual((dropping.drop_last, dropping.sampler.drop_last, len(dropping.sampler)), (True, False, 13))
        self.assertEqual((loader(1).pin_memory, loader(1, pin_memory=True).pin_memory), (False, True))
        with as_rank(0, 1, device="cuda"):
            self.assertEqual((idist.auto_dataloader(DATA).pin_memory, idist.auto_dataloader(DATA, pin_memory=False).pin_memory), (True, False))
        self.assertRaises(TypeError, loader, 1, nonsense=1)

    @covers("A-07", "A-08", "A-09", "A-10")
    def test_samplers_are_distributed_and_mistakes_warned_of(self):
        with self.assertWarnsRegex(UserWarning, "shuffle was not given"):
            self.assertTrue(loader(4).sampler.shuffle)
        plain = loader(4, rank=1, shuffle=False).sampler
        self.assertEqual((type(plain), plain.num_replicas, plain.rank, plain.shuffle), (DistributedSampler, 4, 1, False))
        own = DistributedSampler(DATA, 4, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertIs(loader(4, rank=2, sampler=own).sampler, own)
        with self.assertWarnsRegex(UserWarning, "rank=2, but process rank is 3"):
            loader(4, rank=3, sampler=own)
        with self.assertWarnsRegex(UserWarning, "num_replicas=4, but world size is 5"):
            loader(5, rank=2, sampler=own)
        wrapped = loader(4, rank=3, sampler=WeightedRandomSampler(torch.ones(101), 101)).sampler
        self.assertEqual((type(wrapped), wrapped.num_replicas, wrapped.rank), (idist.DistributedProxySampler, 4, 3))
        self.assertRaises(ValueError, loader, 4, sampler=SequentialSampler(DATA), shuffle=True)

    @covers("A-11", "A-12", "A-17", "A-76")
    def test_what_is_left_alone_is_said(self):
        batches = BatchSampler(RandomSampler(DATA), 5, False)
        with self.assertWarnsRegex(UserWarning, "Found batch_sampler in provided kwargs"):
            self.assertIs(loader(4, batch_sampler=batches).batch_sampler, batches)

        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(4))

        name = "unisono.ignite.auto.auto_dataloader"
        with self.assertLogs(name, "INFO") as logs:
            self.assertNotIsInstance(loader(4, Stream()).sampler, DistributedSampler)
        self.assertIn("Found iterable dataset, dataloader will be created without any distributed sampling", logs.output[0])
        self.assertRegex(logs.output[-1], r"Use data loader kwargs for dataset '.{1,20}': \n\t\{'pin_memory': False")
        for rank, kind in ((0, logging.StreamHandler), (1, logging.NullHandler)):
            loader(4, rank=rank, shuffle=False)
            (handler,) = logging.getLogger(name).handlers
            self.assertIs(type(handler), kind)
            self.assertEqual((handler.formatter._fmt, logging.getLogger(name).propagate), ("%(asctime)s %(name)s %(levelname)s: %(message)s", False))


class Samplers(unittest.TestCase):
    @covers("A-20", "A-21", "A-22", "A-23", "A-24", "A-25")
    def test_unisonos_sampler_shares_out_as_torchs(self):
        for n, size in ((101, 4), (8, 4), (3, 8), (1, 5), (10, 1)):
            for drop_last in (False, True):
                if drop_last and n < size:
                    continue
                for rank in range(size):
                    theirs = DistributedSampler(range(n), size, rank, shuffle=False, drop_last=drop_last)
                    ours = unisono.DistributedSampler(n, num_replicas=size, rank=rank, shuffle=False, drop_last=drop_last)
                    self.assertEqual((len(ours), ours.total_size(), list(ours)), (len(theirs), theirs.total_size, list(theirs)), (n, size, rank, drop_last))
        shuffled = [unisono.DistributedSampler(101, num_replicas=4, rank=rank, seed=7) for rank in range(4)]
        epochs = []
        for epoch in (0, 0, 1):
            for sampler in shuffled:
                sampler.set_epoch(epoch)
            epochs.append([list(sampler) for sampler in shuffled])
            self.assertEqual(set(sum(epochs[-1], [])), set(range(101)))
        self.assertEqual(epochs[0], epochs[1])
        self.assertNotEqual(epochs[0], epochs[2])
        self.assertRaises(unisono.InvalidArgument, unisono.DistributedSampler, 10, num_replicas=2, rank=2)

    @covers("A-26", "A-28", "A-29", "Q-21")
    def test_the_parts_of_a_proxy_are_what_its_sampler_yields(self):
        sampler = WeightedRandomSampler(torch.arange(1.0, 101), 200)
        for seed in range(100):
            parts = []
            for rank in range(8):
                proxy = idist.DistributedProxySampler(sampler, 8, rank)
                proxy.set_epoch(seed)
                parts.append(list(proxy))
            torch.manual_seed(seed)
            self.assertEqual(set(sum(parts, [])), set(sampler), seed)
            self.assertEqual({len(part) for part in parts}, {25})


class Models(unittest.TestCase):
    def wrapped(self, size, device, gpus=0, **how):
        """auto_model's result, and what it gave to the wrapper, where the devices are not there."""
        model = torch.nn.Linear(2, 1)

        def given(model, device_ids=None, dim=None, find_unused_parameters=None):
            return model, {"device_ids": device_ids, "dim": dim, "find_unused_parameters": find_unused_parameters}

        with as_rank(0, size, device=device), mock.patch.object(model, "to") as moved, mock.patch.object(torch.cuda, "device_count", lambda: gpus):
            with mock.patch.object(torch.nn.parallel, "DistributedDataParallel", given), mock.patch.object(torch.nn, "DataParallel", given):
                result, options = idist.auto_model(model, **how)
        self.assertIs(result, model)
        return moved, {name: value for name, value in options.items() if value is not None}

    @covers("A-30", "A-32", "A-34", "A-35", "A-40", "A-41", "Q-22")
    def test_each_device_has_its_wrapper(self):
        moved, options = self.wrapped(4, "cuda:1", gpus=4, find_unused_parameters=True)
        moved.assert_called_once_with(torch.device("cuda:1"))
        self.assertEqual(options, {"device_ids": [1], "find_unused_parameters": True})
        moved, options = self.wrapped(4, "cpu", find_unused_parameters=False)
        moved.assert_not_called()
        self.assertEqual(options, {"find_unused_parameters": False})
        with self.assertRaisesRegex(ValueError, "should not contain 'device_ids'"):
            self.wrapped(4, "cuda:1", device_ids=[0])
        self.assertEqual(self.wrapped(1, "cuda:0", gpus=2, dim=0)[1], {"dim": 0})
        model = torch.nn.Linear(2, 1)
        self.assertIs(idist.auto_model(model), model)

    @covers("A-37", "A-50", "A-53")
    def test_what_has_no_effect_is_refused(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.assertIs(idist.auto_optim(optimizer), optimizer)
        with self.assertRaisesRegex(TypeError, "nonsense.*DistributedOptimizer"):
            idist.auto_optim(optimizer, nonsense=5)
        with self.assertRaisesRegex(TypeError, "nonsense"):
            idist.auto_model(model, nonsense=5)
        self.assertIs(idist.auto_model(model, find_unused_parameters=True), model)
        with self.assertRaisesRegex(TypeError, "nonsense"):
            idist.new_group([0], nonsense=5)
        with self.assertRaisesRegex(TypeError, "nonsense"):
            idist.spawn("gloo", print, (), nonsense=5)
        weight = model[1].weight
        converted = idist.auto_model(model, sync_bn=True)[1]
        self.assertIs(type(converted), unisono.torch.SyncBatchNorm)
        self.assertIs(converted.weight, weight)
        x = torch.randn(5, 2)
        torch.testing.assert_close(converted(x), torch.nn.BatchNorm1d(2)(x))


class OnXla(unittest.TestCase):
    """What is given to torch_xla, where that is not there; ignite_xla_test has it."""

    def setUp(self):
        for patch in (as_rank(1, 4), mock.patch.object(auto.idist, "model_name", lambda: "xla-dist")):
            patch.start()
            self.addCleanup(patch.stop)

    @covers("A-14", "A-15")
    def test_loaders_are_wrapped_and_pin_no_memory(self):
        with mock.patch.object(xla, "device_loader", lambda loader, device: (loader, device)):
            with self.assertWarnsRegex(UserWarning, "Found incompatible options: xla support and pin_memory args equal True"):
                loader, device = idist.auto_dataloader(DATA, batch_size=8, shuffle=False, pin_memory=True)
        self.assertEqual((loader.pin_memory, loader.batch_size, loader.sampler.rank, device), (False, 2, 1, torch.device("cpu")))

    @covers("A-39")
    def test_a_model_is_moved_and_not_wrapped(self):
        model = torch.nn.BatchNorm1d(2)
        with mock.patch.object(model, "to") as moved, mock.patch.object(auto.idist, "device", lambda: torch.device("meta")):
            self.assertIs(idist.auto_model(model, sync_bn=True), model)
        moved.assert_called_once_with(torch.device("meta"))

    @covers("A-51")
    def test_an_optimizer_averages_the_gradients_before_its_step(self):
        told = []
        parameter = torch.nn.Parameter(torch.ones(2))
        given = torch.optim.SGD([parameter], lr=0.5)

        def average(optimizer):
            told.append("averaged")
            parameter.grad /= 2

        ranks = mock.Mock(reduce_gradients=average)
        with mock.patch.object(xla, "torch_xla", mock.Mock(sync=lambda: told.append("step marked")), create=True):
            with mock.patch.object(auto.idist, "_current", lambda: ranks):
                optimizer = idist.auto_optim(given)
                self.assertIsInstance(optimizer, torch.optim.SGD)
                self.assertIs(optimizer.wrapped_optimizer, given)

                def closure():
                    parameter.grad = None
                    loss = parameter.sum()
                    loss.backward()
                    return loss

                self.assertEqual(optimizer.step(closure).item(), 2)
                self.assertEqual((told, parameter.tolist()), (["averaged", "step marked"], [0.75, 0.75]))
                self.assertIsNone(optimizer.step())


class BatchNorm(JobTest):
    @covers("A-36")
    def test_ranks_on_the_cpu_normalize_all_samples_together(self):
        output = self.ranks(
            """
            import copy, torch, unisono.ignite as idist, unisono.torch
            torch.set_num_threads(1)
            idist.initialize("gloo", timeout=100)
            r = idist.get_rank()
            def network():
                torch.manual_seed(3)
                return torch.nn.Sequential(torch.nn.Conv1d(2, 3, 1), torch.nn.BatchNorm1d(3, momentum=0.3), torch.nn.Flatten(), torch.nn.Linear(12, 1))
            whole, model = network().double(), idist.auto_model(network().double(), sync_bn=True)
            assert type(model.module[1]) is unisono.torch.SyncBatchNorm, model
            x = torch.randn(7, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 100
            mine = x[:2] if r == 0 else x[2:]  # batches of different size
            for step in range(3):
                whole.zero_grad(), model.zero_grad()
                expected = whole(x)
                got = model(mine)
                torch.testing.assert_close(got, expected[:2] if r == 0 else expected[2:])
                expected.square().sum().backward()
                (2 * got.square().sum()).backward()  # the wrapper divides by the number of ranks
                for p, q in zip(model.module.parameters(), whole.parameters()):
                    torch.testing.assert_close(p.grad, q.grad)
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                torch.testing.assert_close(getattr(model.module[1], name), getattr(whole[1], name))
            whole.eval(), model.eval()
            torch.testing.assert_close(model(mine), whole(mine))  # in evaluation nothing is sent
            if r == 0:
                model.module[1](mine.mean(2).repeat(1, 2)[:, :3])
            idist.finalize()
            os.write(1, f"rank {r} is fine\\n".encode())
            """,
            n=2,
        )
        self.assertEqual(output.count("is fine"), 2, output)


class Meetings(unittest.TestCase):
    def test_only_a_store_makes_way_for_a_new_one(self):
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        place = folder / "meeting"
        for content in (b"", b"UNISLOG\x01"):
            place.write_bytes(content)
            _meeting.remove_stale_file(f"file://{place}")
            self.assertFalse(place.exists())
        torch.distributed.FileStore(str(place), 3).set("key", "value")
        self.assertTrue(place.exists())
        _meeting.remove_stale_file(f"file://{place}?rank=0")
        self.assertFalse(place.exists())
        _meeting.remove_stale_file(f"file://{place}")  # as well where there is none

        place.write_text("results of a week")
        (folder / "link").symlink_to(place)
        for wrong in (place, folder / "link", folder):
            self.assertRaisesRegex(ValueError, "cannot meet in", _meeting.remove_stale_file, f"file://{wrong}")
        self.assertEqual(place.read_text(), "results of a week")
        self.assertTrue((folder / "link").is_symlink())


if __name__ == "__main__":
    unittest.main(verbosity=2)
