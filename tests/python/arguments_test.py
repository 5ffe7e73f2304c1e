"""Arguments that are no good: objects without a content, and None where something is meant."""

import pickle

import numpy as np

import unisono
from ranks import RankTest, main


class Hollow(unisono.WithPlace):
    """A subclass that forgets its base."""

    def __init__(self):
        self.mine = 1


class WithoutInit(RankTest):
    def refused_as_hollow(self, function, *args, **kwargs):
        self.refused(unisono.InvalidArgument, "its __init__ was not called", function, *args, **kwargs)

    def test_a_value_with_its_place_is_refused(self):
        for hollow in (Hollow(), unisono.WithPlace.__new__(unisono.WithPlace)):
            for call in (unisono.all_reduce, unisono.all_reduce_async):
                self.refused_as_hollow(call, hollow, "min")
            self.refused_as_hollow(unisono.reduce, hollow, 0, "min")
            self.refused_as_hollow(pickle.dumps, hollow)
        self.assertNotEqual(unisono.WithPlace(1, 0), unisono.WithPlace.__new__(unisono.WithPlace))
        self.assertEqual(unisono.all_reduce(1), self.size)

    def test_a_group_a_rank_and_an_operation_are_refused(self):
        group = unisono.ProcessGroup.__new__(unisono.ProcessGroup)
        for call, *args in ((unisono.all_reduce, 1), (unisono.barrier,), (unisono.is_main_process,), (unisono.Grid, (1,))):
            self.refused_as_hollow(call, *args, group=group)
        self.assertNotEqual(unisono.world(), group)
        self.refused_as_hollow(unisono.send, np.ones(1), unisono.GlobalRank.__new__(unisono.GlobalRank))
        self.refused_as_hollow(unisono.all_reduce, 1.0, unisono.PremulSum.__new__(unisono.PremulSum))
        self.assertEqual(unisono.all_reduce(1), self.size)

    def test_works_messages_scopes_and_memory_are_refused(self):
        work, message, scope, memory = (kind.__new__(kind) for kind in (unisono.Work, unisono.P2POp, unisono.OneRankFirst, unisono.SharedBytes))
        self.refused_as_hollow(unisono.wait_all, [work])
        self.refused_as_hollow(unisono.wait_any, [work])
        self.refused_as_hollow(unisono.batch, [message])
        self.refused_as_hollow(scope.__enter__)
        self.refused(unisono.InvalidArgument, "SharedBytes", unisono.all_reduce, memory)
        self.assertRaises(BufferError, memoryview, memory)


class Absent(RankTest):
    def test_none_in_the_place_of_a_function_or_a_store_is_refused(self):
        work = unisono.all_reduce_async(np.ones(1))
        work.wait()
        self.refused(unisono.InvalidArgument, "function", work.on_completion, None)
        self.refused(unisono.InvalidArgument, "a probe is a function", unisono.register_context_probe, None)
        self.refused(unisono.InvalidArgument, "a handler is a function", unisono.register_rendezvous_handler, "none", None)
        self.refused(unisono.InvalidArgument, "a store", unisono.Rendezvous, None)

    def test_a_timeout_of_none_is_the_usual_one(self):
        options = unisono.InitOptions(timeout=7)
        options.timeout = None
        self.assertEqual(options.timeout, unisono.InitOptions().timeout)
        store = unisono.MemoryStore()
        store.timeout = 7
        store.timeout = None
        self.assertEqual(store.timeout, 7)
        unisono.monitored_barrier(None)

    def test_the_error_of_an_index_is_raised_as_it_is(self):
        class Broken:
            def __index__(self):
                raise KeyError("no index")

        self.assertRaises(KeyError, unisono.WithPlace, 1, Broken())


if __name__ == "__main__":
    main()
