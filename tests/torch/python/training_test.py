"""What is built on torch.distributed: each in several ranks equals one process. Run as several ranks."""

import copy
import os
import shutil
import tempfile

os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")  # read once, when the first buckets are made

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import unisono
from covers import covers
from ranks import RankTest, distinct, main


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(12, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 4))


def batch(step, size):
    random = torch.Generator().manual_seed(step)
    return torch.randn(4 * size, 12, generator=random), torch.randn(4 * size, 4, generator=random)


def loss(model, x, y):
    return (model(x) - y).square().mean()


class Training(RankTest):
    def part(self, step):
        return [t[self.rank :: self.size] for t in batch(step, self.size)]

    def alone(self, steps, optimizer=torch.optim.SGD, **how):
        model = network()
        optimizer = optimizer(model.parameters(), **how)
        for step in range(steps):
            optimizer.zero_grad()
            loss(model, *batch(step, self.size)).backward()
            optimizer.step()
        return model

    def train(self, model, optimizer, steps):
        for step in range(steps):
            optimizer.zero_grad()
            loss(model, *self.part(step)).backward()
            optimizer.step()

    def equal_to(self, one, many, **tolerance):
        for (name, p), q in zip(one.named_parameters(), many.parameters()):
            q = q.full_tensor() if isinstance(q, DTensor) else q
            self.close(q.detach(), p.detach(), name, **tolerance)

    def test_ddp_trains_as_one_process_does(self):
        one = self.alone(5, lr=0.05, momentum=0.9)
        for how in ({}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 0.001}, {"static_graph": True}, {"find_unused_parameters": True}):
            many = DistributedDataParallel(network(), **how)
            self.train(many, torch.optim.SGD(many.parameters(), lr=0.05, momentum=0.9), 5)
            self.equal_to(one, many.module)

    def test_ddp_with_hooks_trains_as_one_process_does(self):
        one = self.alone(4, lr=0.05)
        hooks = {
            "allreduce": (None, default_hooks.allreduce_hook, 1e-5),
            "fp16": (None, default_hooks.fp16_compress_hook, 5e-3),
            "fp16 of PowerSGD": (self.power_sgd(), default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook), 5e-3),
        }
        for name, (state, hook, tolerance) in hooks.items():
            many = DistributedDataParallel(network())
            many.register_comm_hook(state, hook)
            self.train(many, torch.optim.SGD(many.parameters(), lr=0.05), 4)
            self.equal_to(one, many.module, rtol=tolerance, atol=tolerance)
            self.assertTrue(name)

    def test_buckets_of_ddp_lie_in_shared_memory(self):
        one = self.alone(4, lr=0.05)
        lie_there = []

        def hook(state, bucket):
            lie_there.append(unisono.is_shared(bucket.buffer()))
            return default_hooks.allreduce_hook(state, bucket)

        for view in (False, True):
            many = DistributedDataParallel(network(), gradient_as_bucket_view=view)
            many.register_comm_hook(None, hook)
            self.train(many, torch.optim.SGD(many.parameters(), lr=0.05), 4)
            self.equal_to(one, many.module)
        self.assertTrue(lie_there and all(lie_there), lie_there)

    def power_sgd(self, **how):
        # It loses nothing of the smaller matrices, whose full rank it keeps.
        how = {"matrix_approximation_rank": 40, "start_powerSGD_iter": 2, "min_compression_rate": 0.01, **how}
        return powerSGD_hook.PowerSGDState(process_group=None, **how)

    def test_power_sgd_trains_as_one_process_does(self):
        one = self.alone(6, lr=0.05)
        many = DistributedDataParallel(network())
        many.register_comm_hook(self.power_sgd(), powerSGD_hook.powerSGD_hook)
        self.train(many, torch.optim.SGD(many.parameters(), lr=0.05), 6)
        self.equal_to(one, many.module, rtol=1e-3, atol=1e-4)

    def test_ddp_accumulates_gradients_without_synchronisation(self):
        one = network()
        for step in (0, 1):
            loss(one, *batch(step, self.size)).backward()
        many = DistributedDataParallel(network())
        with many.no_sync():
            loss(many, *self.part(0)).backward()
        loss(many, *self.part(1)).backward()
        for p, q in zip(one.parameters(), many.parameters()):
            self.close(q.grad, p.grad)

    def test_join_trains_with_uneven_inputs(self):
        many = DistributedDataParallel(network())
        with many.join():
            for step in range(2 + self.rank):
                loss(many, *self.part(step)).backward()
        gathered = [torch.empty(4, 40) for _ in range(self.size)]
        dist.all_gather(gathered, many.module[4].weight.detach())
        for other in gathered:
            self.same(other, gathered[0])

    def test_fsdp_trains_as_one_process_does(self):
        one = self.alone(5, torch.optim.Adam, lr=0.01)
        many = network()
        mesh = init_device_mesh("cpu", (self.size,))
        for layer in many:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(many, mesh=mesh)
        self.train(many, torch.optim.Adam(many.parameters(), lr=0.01), 5)
        self.equal_to(one, many, rtol=1e-4, atol=1e-5)

    def test_the_zero_redundancy_optimizer_trains_as_one_process_does(self):
        one = self.alone(5, torch.optim.Adam, lr=0.01)
        many = DistributedDataParallel(network())
        self.train(many, ZeroRedundancyOptimizer(many.parameters(), torch.optim.Adam, lr=0.01), 5)
        self.equal_to(one, many.module, rtol=1e-4, atol=1e-5)

    @covers("TS-47")
    def test_distributed_tensors_compute_what_whole_ones_do(self):
        mesh = init_device_mesh("cpu", (self.size,), mesh_dim_names=("ranks",))
        a, b = distinct(0, (4 * self.size, 6)), distinct(1, (6, 3 * self.size))
        rows = distribute_tensor(a, mesh, [Shard(0)])
        self.same(rows.to_local(), a[4 * self.rank : 4 * self.rank + 4])
        self.close((rows @ distribute_tensor(b, mesh, [Replicate()])).full_tensor(), a @ b)
        columns = rows.redistribute(mesh, [Shard(1)])
        self.same(columns.full_tensor(), a)
        summed = DTensor.from_local(distinct(self.rank, (5,)), mesh, [torch.distributed.tensor.Partial()]).redistribute(mesh, [Replicate()])
        self.same(summed.to_local(), sum(distinct(r, (5,)) for r in range(self.size)))

    def test_a_mesh_of_two_dimensions_reduces_along_one(self):
        if self.size % 2:
            self.skipTest("needs an even number of ranks")
        mesh = init_device_mesh("cpu", (self.size // 2, 2), mesh_dim_names=("outer", "inner"))
        x = torch.tensor([float(self.rank)])
        dist.all_reduce(x, group=mesh.get_group("inner"))
        self.same(x, torch.tensor([float(2 * (self.rank // 2 * 2) + 1)]))

    def test_compiled_functions_reduce(self):
        def f(x):
            y = torch.distributed._functional_collectives.all_reduce(x * 2, "sum", dist.group.WORLD)
            return y + 1

        for backend in ("aot_eager", "inductor"):
            if backend == "inductor" and not shutil.which("g++"):
                continue  # it compiles C++, and there is no compiler
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            self.close(compiled(distinct(self.rank, (6,))), 2 * sum(distinct(r, (6,)) for r in range(self.size)) + 1, backend)

    def test_a_checkpoint_holds_what_was_saved(self):
        folder = [tempfile.mkdtemp() if self.rank == 0 else None]
        dist.broadcast_object_list(folder)
        mesh = init_device_mesh("cpu", (self.size,))
        weights = distinct(4, (2 * self.size, 3))
        state = {"sharded": distribute_tensor(weights, mesh, [Shard(0)]), "whole": distinct(2, (5,)), "step": 7}
        checkpoint.save(state, checkpoint_id=folder[0])
        loaded = {"sharded": distribute_tensor(torch.zeros(2 * self.size, 3), mesh, [Shard(0)]), "whole": torch.zeros(5), "step": 0}
        checkpoint.load(loaded, checkpoint_id=folder[0])
        self.same(loaded["sharded"].full_tensor(), weights)
        self.same(loaded["whole"], distinct(2, (5,)))
        self.assertEqual(loaded["step"], 7)
        dist.barrier()
        if self.rank == 0:
            shutil.rmtree(folder[0])


if __name__ == "__main__":
    main()
