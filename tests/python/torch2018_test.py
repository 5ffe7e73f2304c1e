"""The calls of unisono.torch2018. Each rank runs the same cases: unisono run -n 3 -- python torch2018_test.py"""

import copy
import io
import os
import pathlib
import shutil
import tempfile
import time

import torch
from covers import covers
from torch2018_groups import Groups, Messages  # noqa: F401  (cases of this program)
from torch2018_ranks import Ranks, distinct, main

import unisono
import unisono.torch2018 as dist

OPERATIONS = {
    dist.reduce_op.SUM: lambda every: every.sum(0),
    dist.reduce_op.PRODUCT: lambda every: every.prod(0),
    dist.reduce_op.MIN: lambda every: every.amin(0),
    dist.reduce_op.MAX: lambda every: every.amax(0),
}
DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64)


class Collectives(Ranks):
    @covers("T-15", "T-26", "T-28", "T-30", "K-11", "K-19")
    def test_every_operation_and_dtype_is_reduced_and_other_ranks_keep_their_input(self):
        for dtype in DTYPES:
            for op, expected in OPERATIONS.items():
                own, result = distinct(self.rank, dtype=dtype), expected(self.every(dtype=dtype).double()).to(dtype)
                x = own.clone()
                self.assertIsNone(dist.all_reduce(x, op))
                self.same(x, result)
                for root in range(self.size):
                    x = own.clone()
                    dist.reduce(x, root, op=op)
                    self.same(x, result if self.rank == root else own)
            for root in range(self.size):
                x = distinct(self.rank, dtype=dtype)
                dist.broadcast(x, root)
                self.same(x, distinct(root, dtype=dtype))

    def test_views_with_strides_empty_tensors_and_leaves_of_autograd_are_worked_on_in_place(self):
        table = distinct(self.rank, (4, 3)).t()
        dist.all_reduce(table)
        self.same(table, self.every((4, 3)).sum(0).t())
        dist.all_reduce(torch.empty(0))
        weight = torch.nn.Parameter(distinct(self.rank))
        dist.broadcast(weight, 0)
        self.same(weight.detach(), distinct(0))

    @covers("T-32", "T-34", "T-35", "K-05", "K-12")
    def test_lists_are_filled_in_the_order_of_the_ranks(self):
        own, every = distinct(self.rank), list(self.every())
        got = [torch.empty(2, 3) for _ in range(self.size)]
        dist.all_gather(got, own)
        [self.same(*pair) for pair in zip(got, every)]
        for root in range(self.size):
            is_root = self.rank == root
            got = [torch.zeros(2, 3) for _ in range(self.size)] if is_root else []
            dist.gather(own, dst=root, gather_list=got)
            [self.same(*pair) for pair in zip(got, every)]
            x = torch.zeros(2, 3)
            dist.scatter(x, src=root, scatter_list=[each * (root + 1) for each in every] if is_root else None)
            self.same(x, own * (root + 1))
            # The root alone need not say who is.
            dist.gather(own, gather_list=got) if is_root else dist.gather(own, dst=root)
            dist.scatter(x, scatter_list=every) if is_root else dist.scatter(x, src=root)
            self.same(x, own)

    @covers("T-34", "T-35", "K-05")
    def test_a_root_that_nobody_is_and_two_roots_are_errors_on_every_rank(self):
        x = torch.zeros(2)
        self.refused(RuntimeError, "gather_list is a required argument in gather destination", dist.gather, x)
        self.refused(RuntimeError, "scatter_list is a required argument in scatter source", dist.scatter, x)
        self.refused(RuntimeError, "got unexpected kwargs: root", dist.gather, x, root=0)
        self.refused(RuntimeError, "got unexpected kwargs: root", dist.scatter, x, root=0)
        if self.size > 1:
            parts = [torch.zeros(2) for _ in range(self.size)]
            other = (self.rank + 1) % self.size
            self.refused(RuntimeError, "non-empty gather_list can be given only", dist.gather, x, gather_list=parts, dst=other)
            self.refused(RuntimeError, "can be given only to scatter source", dist.scatter, x, scatter_list=parts, src=other)
            self.refused(unisono.Mismatch, "gather", dist.gather, x, gather_list=parts)
            self.refused(unisono.Mismatch, "scatter", dist.scatter, x, scatter_list=parts)
        dist.all_reduce(x)  # the group is as it was

    @covers("T-16", "T-32", "K-18")
    def test_wrong_arguments_are_refused_before_anything_is_sent(self):
        x = torch.zeros(2)
        for call in (lambda group: dist.all_reduce(x, group=group), dist.barrier, lambda group: dist.broadcast(x, 0, group)):
            for wrong in (None, "world", 3.0, unisono.world()):
                self.refused(RuntimeError, "group should be an int or one of the values from torch.distributed.group", call, wrong)
            self.refused(RuntimeError, "none that new_group has returned", call, 1000)
        for wrong in ("sum", None, torch.distributed.ReduceOp.SUM, []):
            self.refused(RuntimeError, "op should be a constant from torch.distributed.reduce_op", dist.all_reduce, x, wrong)
            self.refused(RuntimeError, "op should be a constant", dist.reduce, x, 0, wrong)
        for wrong in (3, [x], "text", None):
            for call in (dist.all_reduce, lambda t: dist.broadcast(t, 0), lambda t: dist.send(t, 0), lambda t: dist.all_gather([x] * self.size, t)):
                self.assertIsInstance(self.refused(TypeError, "a tensor is needed", call, wrong), RuntimeError)
        self.refused(RuntimeError, "dense", dist.all_reduce, torch.eye(2).to_sparse())
        self.refused(RuntimeError, "", dist.broadcast, x, self.size)
        self.refused(RuntimeError, "", dist.reduce, x, -1)
        self.refused(RuntimeError, "", dist.all_gather, [torch.zeros(2)] * (self.size + 1), x)
        self.refused(RuntimeError, "", dist.all_gather, [torch.zeros(3) for _ in range(self.size)], x)
        self.refused(RuntimeError, "", dist.all_gather, [torch.zeros(2, dtype=torch.int32) for _ in range(self.size)], x)
        dist.all_reduce(x)

    @covers("T-36")
    def test_a_barrier_waits_for_the_last_rank(self):
        x = torch.tensor([os.getpid()])
        dist.broadcast(x, 0)
        folder = pathlib.Path(tempfile.gettempdir()) / f"barrier-{x.item()}"
        folder.mkdir(exist_ok=True)

        def wait_for_request():
            request = dist.barrier(async_op=True)
            request.wait()
            self.assertTrue(request.is_completed())

        # 0 is the number of the world.
        kinds = (dist.barrier, lambda: dist.barrier(group=dist.group.WORLD), lambda: dist.barrier(0), wait_for_request)
        for i in range(len(kinds) * self.size):
            if i % self.size == self.rank:
                time.sleep(0.02)
                (folder / str(i)).touch()
            kinds[i // self.size]()
            self.assertTrue((folder / str(i)).exists())
        dist.barrier()
        shutil.rmtree(folder, ignore_errors=True)

    def test_async_calls_return_requests_that_keep_their_tensors(self):
        own, every = distinct(self.rank), self.every()
        outputs = [torch.empty(2, 3) for _ in range(self.size)]
        x, y, z = own.clone(), own.clone(), own.clone()
        requests = [dist.all_reduce(x, async_op=True), dist.broadcast(y, 0, async_op=True), dist.reduce(z, 0, async_op=True)]
        requests.append(dist.all_gather(outputs, own.clone(), async_op=True))
        for request in requests:
            request.wait()
            self.assertTrue(request.is_completed())
        self.same(x, every.sum(0))
        self.same(y, every[0])
        self.same(z, every.sum(0) if self.rank == 0 else own)
        self.same(torch.stack(outputs), every)


class Lists(Ranks):
    """The *_multigpu calls, on tensors of the host."""

    def tensors(self, rank=None):
        rank = self.rank if rank is None else rank
        return [distinct(2 * rank + j) for j in range(2)]

    def of_all(self):
        return torch.stack([tensor for r in range(self.size) for tensor in self.tensors(r)])

    @covers("T-27", "T-29", "T-31", "B-25", "TS-48")
    def test_every_tensor_of_every_rank_takes_part(self):
        for op, expected in OPERATIONS.items():
            tensors = self.tensors()
            self.assertIsNone(dist.all_reduce_multigpu(tensors, op))
            [self.same(each, expected(self.of_all())) for each in tensors]
            for root in range(self.size):
                for index in range(2):
                    tensors = self.tensors()
                    dist.reduce_multigpu(tensors, root, op, dst_tensor=index)
                    for j, each in enumerate(tensors):
                        is_result = self.rank == root and j == index
                        self.same(each, expected(self.of_all()) if is_result else self.tensors()[j])
        for root in range(self.size):
            for index in range(2):
                tensors = self.tensors()
                dist.broadcast_multigpu(tensors, root, src_tensor=index)
                [self.same(each, self.tensors(root)[index]) for each in tensors]

    @covers("T-33", "K-06", "B-25")
    def test_entry_k_times_length_plus_j_is_tensor_j_of_rank_k(self):
        for is_async in (False, True):
            outputs = [[torch.empty(2, 3) for _ in range(2 * self.size)] for _ in range(2)]
            request = dist.all_gather_multigpu(outputs, self.tensors(), async_op=is_async)
            if is_async:
                request.wait()
                self.assertTrue(request.is_completed())
            for each in outputs:
                self.same(torch.stack(each), self.of_all())
        x = torch.zeros(2, 3)
        one = [[torch.empty(2, 3) for _ in range(self.size)]]
        dist.all_gather_multigpu(one, [distinct(self.rank)])  # one tensor for a process
        self.same(torch.stack(one[0]), self.every())
        for outputs in ([], [[x] * (self.size + 1)], one + one):
            self.refused(RuntimeError, "output lists", dist.all_gather_multigpu, outputs, [x])
        for wrong in (torch.zeros(5), torch.zeros(2, 3, dtype=torch.int64)):
            self.refused(RuntimeError, "one size and type", dist.all_gather_multigpu, [[wrong] * self.size], [x])

    @covers("T-29")
    def test_an_empty_list_is_no_call_and_lists_that_fit_no_call_are_refused(self):
        for nothing in (dist.all_reduce_multigpu([]), dist.broadcast_multigpu([], 0), dist.reduce_multigpu([], 0), dist.all_gather_multigpu([], [])):
            self.assertIsNone(nothing)
        x = torch.zeros(2)
        for wrong in ([x, torch.zeros(3)], [x, torch.zeros(2, dtype=torch.float64)], [x, x]):
            self.refused(RuntimeError, "all_reduce_multigpu", dist.all_reduce_multigpu, wrong)
        self.refused(TypeError, "a tensor is needed", dist.all_reduce_multigpu, [x, 3])
        self.refused(RuntimeError, "there is no tensor 2", dist.broadcast_multigpu, [x], 0, src_tensor=2)
        self.refused(RuntimeError, "op should be a constant", dist.all_reduce_multigpu, [x], "sum")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.inner = torch.nn.Linear(2, 10, bias=False)
        self.frozen = torch.nn.Linear(10, 10)
        self.frozen.bias.requires_grad = False
        self.norm = torch.nn.BatchNorm1d(10)
        self.last = torch.nn.Linear(10, 4)

    def forward(self, x):
        return torch.softmax(self.last(torch.relu(self.frozen(torch.relu(self.inner(x))))), 1)


class Training(Ranks):
    def step(self, model, x, y):
        torch.nn.functional.mse_loss(model(x), y).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None

    def batch(self, seed):
        torch.manual_seed(seed)
        return torch.randn(2 * self.size, 2), torch.randn(2 * self.size, 4)

    @covers("T-47")
    def test_ranks_train_as_one_process_does_and_models_are_saved_and_loaded_whole(self):
        alone = Net()
        own = copy.deepcopy(alone)
        with torch.no_grad():
            [parameter.add_(self.rank) for parameter in own.parameters()]  # rank 0's count
        model = dist.DistributedDataParallelCPU(own)
        part = slice(2 * self.rank, 2 * self.rank + 2)
        for seed in range(3):
            x, y = self.batch(seed)
            self.step(alone, x, y)
            self.step(model, x[part], y[part])
            for mine, theirs in zip(model.module.parameters(), alone.parameters()):
                torch.testing.assert_close(mine, theirs)
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            model = torch.load(file, weights_only=False) if seed == 0 else copy.deepcopy(model)
        self.assertEqual(dist.get_world_size(), self.size)

    @covers("T-47")
    def test_gradients_are_averaged_once_for_each_pass_forward(self):
        model = dist.DistributedDataParallelCPU(torch.nn.Linear(1, 1, bias=False))
        x = torch.full((1, 1), float(self.rank))
        mean = sum(range(self.size)) / self.size
        loss = model(x).sum()
        loss.backward(retain_graph=True)
        torch.testing.assert_close(model.module.weight.grad.item(), mean)
        loss.backward()  # accumulates what is this rank's own
        torch.testing.assert_close(model.module.weight.grad.item(), mean + self.rank)

    def test_the_other_class_is_for_nccl_and_gloo(self):
        self.refused(ValueError, "only NCCL and GLOO backends", dist.DistributedDataParallel, Net())


if __name__ == "__main__":
    main()
