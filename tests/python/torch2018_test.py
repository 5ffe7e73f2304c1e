"""The calls of unisono.torch2018. Each rank runs the same cases: unisono run -n 3 -- python torch2018_test.py"""

import copy
import io
import os
import sys
import threading
import unittest

import torch
from covers import covers

import unisono
import unisono.torch2018 as dist

OPERATIONS = {
    dist.reduce_op.SUM: lambda every: every.sum(0),
    dist.reduce_op.PRODUCT: lambda every: every.prod(0),
    dist.reduce_op.MIN: lambda every: every.amin(0),
    dist.reduce_op.MAX: lambda every: every.amax(0),
}
DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64)


def distinct(rank, shape=(2, 3), dtype=torch.float32):
    n = max(1, int(torch.tensor(shape).prod()))
    return ((torch.arange(n) * 5 + rank * 11) % 13 + 1).to(dtype).reshape(shape)


class Ranks(unittest.TestCase):
    def setUp(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def every(self, shape=(2, 3), dtype=torch.float32, ranks=None):
        return torch.stack([distinct(r, shape, dtype) for r in (range(self.size) if ranks is None else ranks)])

    def same(self, tensor, expected):
        torch.testing.assert_close(tensor, expected, rtol=0, atol=0)

    def refused(self, kind, text, function, *args, **kwargs):
        with self.assertRaises(kind) as caught:
            function(*args, **kwargs)
        self.assertIn(text, str(caught.exception))
        return caught.exception


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
        self.assertEqual(len(got), self.size if is_root else 0)

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
        for call in (dist.all_reduce, dist.barrier, dist.new_group and (lambda x, group: dist.broadcast(x, 0, group))):
            args = () if call is dist.barrier else (x,)
            for wrong in (None, "world", 3.0, unisono.world()):
                self.refused(RuntimeError, "group should be an int or one of the values from torch.distributed.group", call, *args, group=wrong)
            self.refused(RuntimeError, "none that new_group has returned", call, *args, group=1000)
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
        x = torch.tensor([float(self.rank)])
        dist.barrier()
        dist.barrier(group=dist.group.WORLD)
        dist.barrier(0)  # the number of the world
        request = dist.barrier(async_op=True)
        request.wait()
        self.assertTrue(request.is_completed())
        dist.all_reduce(x)
        self.assertEqual(x.item(), sum(range(self.size)))

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


class Groups(Ranks):
    @covers("T-16", "T-37", "K-13", "TS-48")
    def test_groups_are_numbers_and_keep_the_order_of_their_ranks(self):
        ranks = list(range(self.size))[::-1]
        first, second = dist.new_group(ranks), dist.new_group()
        self.assertIs(type(first), int)
        self.assertEqual(second, first + 1)
        self.assertEqual((dist.get_rank(first), dist.get_world_size(first)), (ranks.index(self.rank), self.size))
        got = [torch.empty(2, 3) for _ in ranks]
        dist.all_gather(got, distinct(self.rank), first)
        self.same(torch.stack(got), self.every(ranks=ranks))
        x = distinct(self.rank)
        dist.broadcast(x, self.size - 1, group=first)  # a rank of the world
        self.same(x, distinct(self.size - 1))
        self.refused(RuntimeError, "", dist.new_group, [])
        self.refused(RuntimeError, "", dist.new_group, [0, self.size])
        self.refused(RuntimeError, "", dist.new_group, [0, 0])
        dist.destroy_process_group(first)
        self.refused(RuntimeError, "destroyed", dist.all_reduce, x, group=first)
        dist.all_reduce(x, group=second)

    @covers("T-26", "T-37", "T-28")
    def test_calls_of_processes_that_are_no_members_return_at_once(self):
        ranks = list(range(1, self.size)) or [0]
        group = dist.new_group(ranks)
        own = distinct(self.rank)
        x, outputs = own.clone(), [torch.zeros(2, 3) for _ in ranks]
        dist.all_reduce(x, dist.reduce_op.MAX, group)
        dist.all_gather(outputs, own, group)
        dist.barrier(group)
        is_member = self.rank in ranks
        self.same(x, self.every(ranks=ranks).amax(0) if is_member else own)
        self.same(torch.stack(outputs), self.every(ranks=ranks) if is_member else torch.zeros(len(ranks), 2, 3))
        self.assertEqual((dist.get_rank(group), dist.get_world_size(group)), (ranks.index(self.rank), len(ranks)) if is_member else (-1, -1))
        if is_member:
            self.refused(RuntimeError, "", dist.broadcast, x, self.size, group)
            if self.size > 1:
                self.refused(RuntimeError, "0", dist.broadcast, x, 0, group)
            self.assertEqual(dist.get_backend(group), "tcp")
        else:
            self.assertEqual(dist.recv(x, group=group), -1)
            for nothing in (dist.isend(x, 0, group), dist.irecv(x, 0, group), dist.reduce(x, 0, group=group), dist.all_reduce_multigpu([x], group=group)):
                self.assertIsNone(nothing)
            self.refused(RuntimeError, "Invalid process group specified", dist.get_backend, group)

    @covers("T-01", "T-02", "T-10", "T-19", "T-20", "K-07")
    def test_names_ranks_and_numbers_are_those_of_2018(self):
        self.assertTrue(dist.is_available() and dist.is_initialized())
        self.assertEqual((self.rank, self.size), (unisono.rank(), unisono.world_size()))
        numbers = dist.dist_backend
        self.assertEqual((numbers.UNDEFINED, numbers.TCP, numbers.MPI, numbers.GLOO, numbers.NCCL), (-1, 0, 1, 2, 3))
        self.assertEqual((dist._backend, dist._initialized, dist._INITIALIZED_PG, dist._INITIALIZED_MW), (numbers.TCP, 1, 1, 2))
        self.assertEqual((dist.get_backend(), dist.Backend("GLOO"), dist.Backend.NCCL), ("tcp", "gloo", "nccl"))
        self.assertIs(dist._get_default_group(), dist.group.WORLD)
        for wrong in ("undefined", "xYz", None, 3, ["gloo"]):
            self.assertRaises(ValueError, dist.Backend, wrong)
        with self.assertRaises(AttributeError):
            dist.no_such_name
        for name in dist.__all__:
            thing = getattr(dist, name)
            self.assertTrue(thing.__doc__, name)

    @covers("T-03", "K-01")
    def test_a_second_start_is_refused_and_changes_nothing(self):
        self.refused(RuntimeError, "trying to initialize torch.distributed twice!", dist.init_process_group, "gloo", rank=0, world_size=1)
        self.assertEqual(dist.get_backend(), "tcp")
        dist.barrier()

    @covers("T-38", "T-39")
    def test_the_group_cache_is_nccls_alone_and_streams_are_cudas(self):
        self.refused(RuntimeError, "does not support clear group cache", dist._clear_group_cache)
        self.refused(RuntimeError, "does not support clear group cache", dist._clear_group_cache, dist.group.WORLD)
        self.refused(RuntimeError, "group should be an int", dist._clear_group_cache, "world")
        self.refused(RuntimeError, "torch.cuda.Stream", dist._register_stream, 3)


class Messages(Ranks):
    def setUp(self):
        super().setUp()
        if self.size == 1:
            self.skipTest("nobody sends to itself")
        self.peers = [r for r in range(self.size) if r != self.rank]

    @covers("T-23", "T-24")
    def test_all_ranks_send_before_they_receive(self):
        x = torch.full((self.size,) * 3, float(self.rank))
        for peer in self.peers:
            self.assertIsNone(dist.send(x, peer))
        for peer in self.peers:
            y = torch.empty((self.size,) * 3)
            self.assertEqual(dist.recv(y, peer), peer)
            self.same(y, torch.full_like(y, float(peer)))

    @covers("T-25", "K-09")
    def test_a_receive_from_anybody_tells_the_sender(self):
        for tag in (0, 5):
            for peer in self.peers:
                dist.send(torch.tensor([self.rank, tag]), peer, tag=tag)
        for tag in (5, 0):
            y, senders = torch.empty(2, dtype=torch.int64), set()
            for _ in self.peers:
                senders.add(dist.recv(y, tag=tag))
                self.assertIn(y.tolist(), [[peer, tag] for peer in senders])
            self.assertEqual(senders, set(self.peers))
        dist.barrier()

    @covers("T-17", "T-18", "T-21", "T-22")
    def test_requests_are_waited_for(self):
        n = 50_000  # more than is sent without a receiver
        inputs = {peer: torch.empty(n + peer) for peer in self.peers}
        requests = [dist.irecv(y, peer) for peer, y in inputs.items()]
        requests += [dist.isend(torch.full((n + self.rank,), float(self.rank)), peer) for peer in self.peers]  # the request keeps the tensor
        for request in requests:
            self.assertIsNone(request.wait())
            self.assertTrue(request.is_completed())
        for peer, y in inputs.items():
            self.same(y, torch.full_like(y, float(peer)))
        self.refused(RuntimeError, "src is a rank", dist.irecv, torch.zeros(1), None)

    @covers("T-24", "K-10")
    def test_a_message_of_another_length_or_dtype_is_an_error_and_gone(self):
        pairs = ((torch.zeros(3), torch.zeros(2)), (torch.zeros(2), torch.zeros(2, dtype=torch.int32)))
        for sent, awaited in pairs:
            if self.rank == 0:
                dist.send(sent, 1)
                dist.send(torch.ones(1), 1)
            elif self.rank == 1:
                self.refused(RuntimeError, "recv", dist.recv, awaited, 0)
                dist.recv(y := torch.zeros(1), 0)
                self.assertEqual(y.item(), 1)

    @covers("T-21", "T-23")
    def test_nobody_sends_to_itself_or_to_a_rank_that_is_not_there(self):
        x = torch.zeros(1)
        for call in (dist.send, dist.isend, dist.recv, dist.irecv):
            self.refused(RuntimeError, "itself", call, x, self.rank)
            self.refused(RuntimeError, str(self.size), call, x, self.size)

    def test_messages_within_a_group_name_ranks_of_the_world(self):
        group = dist.new_group([self.size - 1, 0])
        if self.rank == 0:
            dist.send(torch.tensor([7.0]), self.size - 1, group)
        elif self.rank == self.size - 1:
            x = torch.zeros(1)
            self.assertEqual(dist.recv(x, group=group), 0)
            self.assertEqual(x.item(), 7.0)


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


def main():
    dist.init_process_group("tcp")
    stream = sys.stderr if dist.get_rank() == 0 else io.StringIO()
    result = unittest.TextTestRunner(stream=stream, verbosity=2, failfast=True).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    if not result.wasSuccessful():
        if dist.get_rank() > 0:
            print(stream.getvalue(), file=sys.stderr, flush=True)
        os._exit(1)
    dist.destroy_process_group()
    assert not dist.is_initialized() and threading.active_count() >= 1


if __name__ == "__main__":
    main()
