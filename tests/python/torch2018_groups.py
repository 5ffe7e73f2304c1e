"""The cases of torch2018_test.py that are of groups and messages."""

import torch
from covers import covers
from torch2018_ranks import Ranks, distinct

import unisono
import unisono.torch2018 as dist


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

    @covers("T-37")
    def test_who_is_no_member_of_a_group_is_told_as_pytorch_1_0_told(self):
        ranks = list(range(1, self.size)) or [0]
        group, nobody = dist.new_group(ranks), dist.GroupMember.NON_GROUP_MEMBER
        self.assertIs(dist.GroupMember.WORLD, dist.group.WORLD)
        self.assertEqual((group == nobody, nobody == group, group != nobody), (self.rank not in ranks, self.rank not in ranks, self.rank in ranks))
        for other in (dist.group.WORLD, 0, group + 1, -1, None):
            self.assertNotEqual(other, nobody)
        x = distinct(self.rank)
        self.assertIsNone(dist.all_reduce(x, group=nobody))
        self.assertIsNone(dist.destroy_process_group(nobody))
        self.same(x, distinct(self.rank))
        self.assertEqual((dist.get_rank(nobody), dist.get_world_size(nobody)), (-1, -1))

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
