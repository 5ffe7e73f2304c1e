"""Messages between two ranks, and the groups that they and the collectives are called on."""

import array
import sys
import threading

import numpy as np

import unisono
from ranks import RankTest, main


_unraisable = threading.local()  # ranks may be threads


def _note_unraisable(unraisable, otherwise=sys.unraisablehook):
    seen = getattr(_unraisable, "seen", None)
    if seen is None:
        otherwise(unraisable)
    else:
        seen.append(unraisable.exc_type)


sys.unraisablehook = _note_unraisable


class Messages(RankTest):
    def setUp(self):
        super().setUp()
        self.right, self.left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        if self.size == 1:
            self.skipTest("nobody sends to itself")

    def test_messages_of_every_length_arrive(self):
        for n in (0, 1, 1000, 100_000):
            x, y = self.mine((n,)), np.empty(n)
            if self.rank % 2 == 0 and n > 1000 and self.size % 2 == 0:
                unisono.send(x, self.right)
                self.assertEqual(unisono.recv(y, self.left), self.left)
            else:
                work = unisono.isend(x, self.right)
                self.assertEqual(unisono.recv(y, unisono.any_source if self.size == 2 else self.left), self.left)
                work.wait()
            self.same(y, self.all((n,))[self.left])

    def test_numbers_travel_as_messages_of_one_element(self):
        unisono.send(self.rank + 0.5, self.right)
        y = np.empty(1)
        unisono.recv(y, self.left)
        self.assertEqual(y[0], self.left + 0.5)
        self.assertEqual(unisono.send_recv(self.rank, self.right, None, self.left), self.left)

    def test_irecv_tells_the_sender_and_the_tag(self):
        x, y = self.mine((500,), "int32"), np.empty(500, "int32")
        received = unisono.irecv(y, unisono.any_source, tag=unisono.any_tag)
        unisono.isend(x, self.right, tag=7).wait()
        self.assertTrue(received.wait_for(30))
        self.assertEqual((received.source_rank(), received.tag()), (self.left, 7))
        self.same(y, self.all((500,), "int32")[self.left])

    def test_a_receive_is_taken_back(self):
        y, z = np.full(500, 3.0), np.empty(500)
        unwanted = unisono.irecv(y, unisono.any_source, tag=unisono.any_tag)
        self.assertTrue(unwanted.cancel())
        self.assertFalse(unwanted.cancel())
        unwanted.wait()
        self.assertEqual((unwanted.source_rank(), unwanted.is_completed(), unwanted.exception()), (-1, True, None))
        unisono.barrier()
        received = unisono.irecv(z, self.left)
        sent = unisono.isend(self.mine((500,)), self.right)
        received.wait()
        self.assertFalse(received.cancel())
        self.assertFalse(sent.cancel())
        sent.wait()
        self.same(z, self.all((500,))[self.left])
        self.same(y, np.full(500, 3.0))

    def test_send_recv_exchanges_large_messages(self):
        x, y = self.mine((200_000,)), np.empty(200_000)
        self.assertEqual(unisono.send_recv(x, self.right, y, self.left), self.left)
        self.same(y, self.all((200_000,))[self.left])

    def test_recv_array_returns_an_array_as_long_as_the_message(self):
        unisono.send(self.mine((self.rank + 3,), "float32"), self.right)
        y = unisono.recv_array(self.left)
        self.assertEqual(y.dtype, np.float32)
        self.same(y, self.all((self.left + 3,), "float32")[self.left])

    def test_a_container_becomes_as_long_as_the_message(self):
        for n in (self.size + 3, 1, 0, 50_000):
            x = array.array("d", range(5))
            work = unisono.isend(self.mine((n + self.rank,)), self.right, tag=7)
            info = unisono.recv_resized(x, unisono.any_source if self.size == 2 else self.left, tag=unisono.any_tag)
            self.assertEqual((info.source, info.tag, info.dtype, info.count), (self.left, 7, "float64", n + self.left))
            self.same(x, self.all((n + self.left,))[self.left])
            work.wait()
        text = bytearray(b"another text")
        unisono.send(b"rank %d" % self.rank, self.right)
        self.assertEqual(unisono.recv_resized(text, self.left).count, 6)
        self.assertEqual(text, b"rank %d" % self.left)

    def test_a_container_that_cannot_change_its_length_receives_nothing(self):
        text = bytearray(b"abc")
        unisono.send(b"news", self.right)
        with memoryview(text):
            self.refused(unisono.InvalidArgument, "cannot change its length", unisono.recv_resized, text, self.left)
        for wrong, why in ((np.empty(4, "uint8"), "recv_array"), (b"abc", "bytearray"), (7, "bytearray"), (array.array("u", "x"), "")):
            self.refused(unisono.InvalidArgument, why, unisono.recv_resized, wrong, self.left)
        self.refused(unisono.InvalidArgument, "", unisono.recv_resized, text, self.size)
        self.assertEqual(text, b"abc")
        unisono.recv_resized(text, self.left)
        self.assertEqual(text, b"news")

    def test_an_empty_array_becomes_as_long_as_the_message(self):
        numbers = array.array("d")
        unisono.send(self.mine((3,)), self.right)
        self.assertEqual(unisono.recv_resized(numbers, self.left).count, 3)
        self.same(numbers, self.all((3,))[self.left])

    def test_a_container_whose_memory_is_taken_while_it_waits_says_so(self):
        class Held(bytearray):
            """Another holds its memory from the moment when recv_resized has seen that it can change its length."""

            def pop(self):
                last = super().pop()
                self.view = memoryview(self)
                return last

        text = Held(b"abc")
        unisono.send(b"other", self.right)
        self.refused(unisono.InvalidArgument, "cannot change its length", unisono.recv_resized, text, self.left)
        other = bytearray()
        unisono.recv_resized(other, self.left)
        self.assertEqual((text, other), (b"abc", b"other"))

    def test_a_container_keeps_its_elements_where_the_message_has_another_dtype(self):
        x = array.array("i", [1, 2])
        unisono.send(np.ones(5), self.right)
        self.refused(unisono.Mismatch, "float64", unisono.recv_resized, x, self.left)
        self.assertEqual(x.tolist(), [1, 2])
        unisono.send(np.arange(3, dtype="int32"), self.right)
        unisono.recv_resized(x, self.left)
        self.assertEqual(x.tolist(), [0, 1, 2])

    def test_a_function_is_called_when_an_operation_is_done(self):
        x, y, called = self.mine((100_000,)), np.empty(100_000), threading.Event()
        received = unisono.irecv(y, self.left)
        received.on_completion(called.set)
        self.assertFalse(called.is_set())
        unisono.barrier()
        unisono.isend(x, self.right).wait()
        received.wait()
        self.assertTrue(called.wait(30))
        at_once = []
        received.on_completion(lambda: at_once.append(threading.current_thread()))
        self.assertEqual(at_once, [threading.current_thread()])
        self.refused(unisono.InvalidArgument, "function", received.on_completion, 3)

    def test_what_such_a_function_raises_harms_nothing(self):
        raised = []
        work = unisono.all_reduce_async(np.ones(10))
        work.wait()
        _unraisable.seen = raised
        work.on_completion(lambda: 1 // 0)
        _unraisable.seen = None
        self.assertEqual(raised, [ZeroDivisionError])
        self.assertEqual(unisono.all_reduce(1), self.size)

    def test_a_batch_issues_several_messages_together(self):
        y = np.empty(50_000)
        works = unisono.batch([unisono.P2POp.recv(y, self.left), unisono.P2POp.send(self.mine((50_000,)), self.right)])
        unisono.wait_all(works)
        self.same(y, self.all((50_000,))[self.left])
        self.assertEqual(works[0].source_rank(), self.left)

    def test_probe_tells_of_a_message_without_receiving_it(self):
        self.assertIsNone(unisono.try_probe(self.left, tag=99))
        unisono.send(np.ones(5, "int16"), self.right, tag=3)
        info = unisono.probe(unisono.any_source, tag=unisono.any_tag)
        self.assertEqual((info.source, info.tag, info.dtype, info.count, info.nbytes, info.is_object), (self.left, 3, "int16", 5, 10, False))
        unisono.recv(np.empty(5, "int16"), self.left, tag=3)

    def test_another_length_is_a_mismatch(self):
        unisono.send(np.ones(4), self.right)
        error = self.refused(unisono.Mismatch, "", unisono.recv, np.empty(5), self.left)
        self.assertEqual((error.culprit, error.group, error.rank), (self.left, "world", self.rank))

    def test_wrong_peers_and_batches_are_refused(self):
        self.refused(unisono.InvalidArgument, "", unisono.send, np.ones(1), self.rank)
        self.refused(unisono.InvalidArgument, "", unisono.send, np.ones(1), self.size)
        self.refused(unisono.InvalidArgument, "P2POp", unisono.batch, [1])


class Groups(RankTest):
    def test_the_world_has_all_ranks_in_order(self):
        world = unisono.world()
        self.assertEqual((world.rank(), world.size(), len(world), world.name()), (self.rank, self.size, self.size, "world"))
        self.assertEqual(world.global_ranks(), list(range(self.size)))
        self.assertEqual(world, unisono.world())
        self.assertEqual(hash(world), hash(unisono.world()))
        self.assertNotEqual(world, None)
        self.assertIn("world", repr(world))
        self.refused(unisono.InvalidArgument, "", world.global_rank, self.size)

    def test_new_group_takes_the_ranks_in_the_given_order(self):
        order = list(reversed(range(self.size)))
        group = unisono.new_group(order)
        self.assertEqual((group.rank(), group.global_ranks()), (self.size - 1 - self.rank, order))
        self.assertEqual(group.rank_of(unisono.GlobalRank(0)), self.size - 1)
        self.assertEqual(unisono.all_gather(self.rank, group=group), order)
        self.assertEqual(unisono.broadcast(self.rank, unisono.GlobalRank(0), group), 0)
        first = unisono.new_group([0])
        self.assertEqual(first is not None, self.rank == 0)
        whole = unisono.new_group()
        self.assertEqual(unisono.all_reduce(1, group=whole), self.size)
        self.refused(unisono.InvalidArgument, "", unisono.new_group, [0, 0])
        self.refused(unisono.InvalidArgument, "", unisono.new_group, [])

    def test_split_group_orders_a_color_by_key(self):
        half = unisono.split_group(unisono.world(), self.rank % 2, key=-self.rank)
        members = [r for r in reversed(range(self.size)) if r % 2 == self.rank % 2]
        self.assertEqual(half.global_ranks(), members)
        self.assertEqual(unisono.all_reduce(1, group=half), len(members))
        self.assertIsNone(unisono.split_group(unisono.world(), -1))

    def test_local_group_has_the_ranks_of_the_host(self):
        self.assertEqual(unisono.local_group().size(), self.size)

    def test_ranks_hosts_and_devices_are_told(self):
        self.assertEqual(unisono.dist_info(), (self.rank, self.size))
        self.assertEqual((unisono.local_rank(), unisono.nproc_per_node(), unisono.nnodes(), unisono.node_rank()), (self.rank, self.size, 1, 0))
        self.assertEqual(str(unisono.device()), "cpu")
        self.assertEqual(unisono.device().type, "cpu")
        self.assertTrue(unisono.hostname())
        self.assertTrue(unisono.is_initialized())
        self.assertIn("native", unisono.available_backends())
        self.assertTrue(unisono.is_backend_available("serial"))
        self.assertFalse(unisono.is_backend_available("no such"))
        name = unisono.backend()
        self.assertEqual(unisono.model_name(), "serial" if name is None else name + "-dist")

    def test_barriers_return_when_all_have_come(self):
        unisono.barrier()
        unisono.synchronize()
        unisono.monitored_barrier(30)
        unisono.monitored_barrier(timeout=30, group=unisono.world())


if __name__ == "__main__":
    main()
