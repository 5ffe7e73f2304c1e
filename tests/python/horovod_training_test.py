"""unisono.horovod.torch in training: many ranks with parts of a batch equal one process with the whole. unisono run -n 3 -- python horovod_training_test.py"""

import copy
import warnings

import torch
from covers import covers
from horovod_ranks import RankTest, adasum, run
from torch import nn

import unisono.horovod.torch as hvd


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()


def batches(size, n=4):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(6 * size, 4, generator=generator, dtype=torch.float64) for _ in range(n)]


def loss_of(net, x):
    return (net(x) - x[:, :2].sin()).square().mean()


class Optimizers(RankTest):
    def share(self, batch):
        return batch.chunk(self.size)[self.rank]

    def alone(self, how, net=None):
        net = net or model()
        optimizer = how(net.parameters())
        for batch in batches(self.size):
            optimizer.zero_grad()
            loss_of(net, batch).backward()
            optimizer.step()
        return net

    def together(self, how, net=None, **options):
        net = net or model(self.rank)  # rank 0's parameters are those of all
        hvd.broadcast_parameters(net.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(how(net.parameters()), named_parameters=net.named_parameters(), **options)
        for batch in batches(self.size):
            optimizer.zero_grad()
            loss_of(net, self.share(batch)).backward()
            optimizer.step()
        return net

    def equal(self, net, other, tolerance=1e-10):
        for p, q in zip(net.parameters(), other.parameters()):
            self.same(p, q, rtol=tolerance, atol=tolerance)

    def test_training_equals_one_process_with_the_whole_batch(self):
        for how in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.Adam(p, lr=0.01)):
            expected = self.alone(how)
            for options in ({}, {"groups": 2}, {"num_groups": 3}, {"gradient_predivide_factor": 2.0}, {"compression": hvd.Compression.fp16}):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    net = self.together(how, **options)
                self.equal(net, expected, 2e-2 if "compression" in options else 1e-10)
            net = model(self.rank)
            self.equal(self.together(how, net, groups=[list(net[0].parameters()), [net[2].bias]]), expected)
        self.equal(self.together(lambda p: torch.optim.SGD(p, lr=0.1 / self.size), op=hvd.Sum), self.alone(lambda p: torch.optim.SGD(p, lr=0.1)))

    def test_several_passes_before_a_step_are_accumulated(self):
        net, expected = model(), model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters(), backward_passes_per_step=2)
        plain = torch.optim.SGD(expected.parameters(), 0.1)
        for first, second in zip(batches(self.size)[::2], batches(self.size)[1::2]):
            for batch in (first, second):
                loss_of(net, self.share(batch)).backward()
                loss_of(expected, batch).backward()
            for one in (optimizer, plain):
                one.step()
                one.zero_grad()
        self.equal(net, expected)

    def test_a_pass_too_many_and_an_early_zero_grad_are_errors(self):
        if self.size == 1:
            self.skipTest("one rank reduces nothing")
        net = model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters())
        loss_of(net, self.share(batches(self.size)[0])).backward()
        with self.assertRaisesRegex(AssertionError, "zero_grad"):
            optimizer.zero_grad()
        with self.assertRaisesRegex(AssertionError, "backward_passes_per_step"):
            loss_of(net, self.share(batches(self.size)[0])).backward()
        optimizer.synchronize()
        optimizer.zero_grad()

    def test_gradients_are_clipped_between_synchronize_and_step(self):
        net, expected = model(), model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters())
        plain = torch.optim.SGD(expected.parameters(), 0.1)
        batch = batches(self.size)[0]
        loss_of(net, self.share(batch)).backward()
        loss_of(expected, batch).backward()
        optimizer.synchronize()
        for one in (net, expected):
            nn.utils.clip_grad_norm_(one.parameters(), 0.01)
        with optimizer.skip_synchronize():
            optimizer.step()
        plain.step()
        self.equal(net, expected)
        optimizer.synchronize()
        with self.assertWarnsRegex(UserWarning, "skip_synchronize"):
            optimizer.step()

    def test_a_gradient_that_a_rank_lacks_counts_as_zero(self):
        net = nn.ModuleDict({"all": nn.Linear(2, 1), "some": nn.Linear(2, 1)})
        hvd.broadcast_parameters(dict(net.named_parameters()), 0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 1.0), net.named_parameters())
        before = copy.deepcopy(net)
        x = torch.ones(1, 2)
        (net["all"](x) + (net["some"](x) if self.rank == 0 else 0)).sum().backward()
        optimizer.step()
        self.same(net["all"].bias, before["all"].bias - 1)
        self.same(net["some"].bias, before["some"].bias - 1 / self.size)

    def test_sparse_gradients_are_averaged(self):
        for sparse_as_dense in (False, True):
            net, expected = nn.Embedding(8, 3, sparse=True), nn.Embedding(8, 3)
            hvd.broadcast_parameters(net.state_dict(), 0)
            expected.load_state_dict(net.state_dict())
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.5), net.named_parameters(), sparse_as_dense=sparse_as_dense)
            plain = torch.optim.SGD(expected.parameters(), 0.5)
            net(torch.tensor([self.rank, 7])).square().sum().backward()
            sum(expected(torch.tensor([r, 7])).square().sum() for r in range(self.size)).div(self.size).backward()
            optimizer.step()
            plain.step()
            self.same(net.weight, expected.weight, rtol=1e-6, atol=1e-6)

    def test_adasum_combines_the_changes_of_the_parameters(self):
        if self.size == 1:
            self.skipTest("one rank reduces nothing")
        start = model()
        changes = []
        for r in range(self.size):
            net = copy.deepcopy(start)
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            loss_of(net, batches(self.size)[0].chunk(self.size)[r]).backward()
            optimizer.step()
            changes.append([(p - q).detach().flatten().numpy() for p, q in zip(net.parameters(), start.parameters())])
        net = copy.deepcopy(start)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters(), op=hvd.Adasum)
        loss_of(net, self.share(batches(self.size)[0])).backward()
        optimizer.step()
        for p, q, own in zip(net.parameters(), start.parameters(), zip(*changes)):
            self.same(p.detach(), q.detach() + torch.from_numpy(adasum(own)).view_as(q), rtol=1e-10, atol=1e-12)

    def test_a_process_set_trains_alone(self):
        if self.size == 1:
            self.skipTest("needs two ranks")
        some = hvd.add_process_set([0])
        net, before = model(), model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters(), process_set=some)
        loss_of(net, self.share(batches(self.size)[0])).backward()
        optimizer.step()
        expected = torch.optim.SGD(before.parameters(), 0.1)
        loss_of(before, self.share(batches(self.size)[0])).backward()
        expected.step()
        self.equal(net, before)
        hvd.remove_process_set(some)

    def test_ranks_with_less_data_join_and_the_others_go_on(self):
        net = model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters())
        expected = model()
        plain = torch.optim.SGD(expected.parameters(), 0.1)
        for step in range(self.size):
            plain.zero_grad()
            batch = batches(self.size)[0].roll(step, 0)
            for r in range(step, self.size):  # rank r makes r + 1 steps
                (loss_of(expected, batch.chunk(self.size)[r]) / self.size).backward()
            plain.step()
        for step in range(self.rank + 1):
            optimizer.zero_grad()
            loss_of(net, self.share(batches(self.size)[0].roll(step, 0))).backward()
            optimizer.step()
        hvd.join()
        hvd.broadcast_parameters(net.state_dict(), root_rank=self.size - 1)
        self.equal(net, expected)

    def test_it_is_an_optimizer_in_every_respect(self):
        net = model()
        plain = torch.optim.Adam([{"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters()}])
        optimizer = hvd.DistributedOptimizer(plain)  # names are optional
        self.assertIsInstance(optimizer, torch.optim.Adam)
        self.assertEqual(type(optimizer).__name__, "Adam")
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        calls = []
        optimizer.register_step_post_hook(lambda *_: calls.append(1))
        loss_of(net, self.share(batches(self.size)[0])).backward()
        optimizer.step()
        scheduler.step()
        self.assertEqual((optimizer.param_groups[0]["lr"], len(calls)), (0.05, 1))
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.set_backward_passes_per_step(3)
        self.assertEqual(optimizer.backward_passes_per_step, 3)

    def test_wrong_arguments_are_refused(self):
        net = model()
        plain = torch.optim.SGD(net.parameters(), 0.1)
        named = list(net.named_parameters())
        for wrong in ({"named_parameters": net.parameters()}, {"named_parameters": named[1:]}, {"named_parameters": [("a", p) for _, p in named]},
                      {"groups": -1}, {"groups": [[1]]}, {"groups": [[named[0][1]], [named[0][1]]]}, {"gradient_predivide_factor": 2.0, "op": hvd.Sum}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                hvd.DistributedOptimizer(plain, **wrong)


class States(RankTest):
    @covers("A-52")
    def test_broadcast_optimizer_state_gives_everybody_the_state_of_the_root(self):
        for how in (lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9), lambda p, lr: torch.optim.Adam(p, lr), lambda p, lr: torch.optim.Adagrad(p, lr)):
            root = self.size - 1
            net = model()
            optimizer = how(net.parameters(), 0.1 * (1 + self.rank))
            if self.rank == root:  # the others have no state yet
                loss_of(net, batches(self.size)[0]).backward()
                optimizer.step()
            hvd.broadcast_optimizer_state(optimizer, root)
            states = hvd.allgather_object(optimizer.state_dict())
            self.assertEqual(optimizer.param_groups[0]["lr"], 0.1 * (1 + root))
            for key, value in states[root]["state"].items():
                for name, tensor in value.items():
                    own = optimizer.state_dict()["state"][key][name]
                    self.same(own, tensor) if isinstance(tensor, torch.Tensor) else self.assertEqual(own, tensor)
            self.assertTrue(states[0]["state"])
        with self.assertRaises(ValueError):
            hvd.broadcast_optimizer_state(torch.optim.LBFGS(net.parameters()), 0)

    @covers("A-38")
    def test_broadcast_parameters_gives_everybody_those_of_the_root(self):
        net = model(self.rank)
        hvd.broadcast_parameters(net.named_parameters(), root_rank=0)
        for p, q in zip(net.parameters(), model(0).parameters()):
            self.same(p, q)
        hvd.broadcast_parameters({"number": 3, "none": None, "x": torch.ones(1)}, 0)
        for wrong in (3, [torch.ones(1)]):
            with self.assertRaises(ValueError):
                hvd.broadcast_parameters(wrong, 0)


class SyncBatchNorms(RankTest):
    def test_it_equals_batch_norm_over_all_samples(self):
        for shape, plain in (((5,), nn.BatchNorm1d), ((5, 4), nn.BatchNorm1d), ((5, 3, 2), nn.BatchNorm2d)):
            for momentum in (0.1, None):
                parts = [torch.randn(2 + r, *shape, generator=torch.Generator().manual_seed(r), dtype=torch.float64) * 3 + 100 for r in range(self.size)]
                whole = torch.cat(parts).requires_grad_()
                own = parts[self.rank].clone().requires_grad_()
                theirs, ours = plain(5, momentum=momentum).double(), hvd.SyncBatchNorm(5, momentum=momentum).double()
                for _ in range(2):
                    expected, result = theirs(whole), ours(own)
                begins = [sum(2 + r for r in range(n)) for n in range(self.size + 1)]
                mine = slice(begins[self.rank], begins[self.rank + 1])
                self.same(result, expected[mine], rtol=1e-9, atol=1e-9)
                for name in ("running_mean", "running_var", "num_batches_tracked"):
                    self.same(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9)
                expected.sin().sum().backward()
                result.sin().sum().backward()
                self.same(own.grad, whole.grad[mine], rtol=1e-7, atol=1e-9)
                self.same(hvd.allreduce(ours.weight.grad, op=hvd.Sum), theirs.weight.grad, rtol=1e-7, atol=1e-9)
                self.same(ours.eval()(own), theirs.eval()(whole)[mine], rtol=1e-9, atol=1e-9)

    def test_a_rank_may_have_no_samples_and_one_in_all_is_too_few(self):
        norm = hvd.SyncBatchNorm(2)
        x = torch.randn(4 if self.rank == 0 else 0, 2)
        if self.size > 1:
            self.assertEqual(norm(x).shape, x.shape)
        with self.assertRaises(ValueError):
            norm(torch.ones(1 if self.rank == 0 else 0, 2))
        with self.assertRaises(ValueError):
            norm(torch.ones(3))


if __name__ == "__main__":
    run()
