"""Objects that somebody changes between two hosts, pickles that are forbidden, and a rank whose memory the others may no longer read."""

import os
import sys
import unittest

import jobs
from jobs import UNISONO

CHANGING = os.environ.get("CHANGING", "")  # tests/hosts/changing.c
SENT, CHANGED = "the object as it was sent", "the object of an attacker"

CALLS = {
    "broadcast": "x = unisono.broadcast_object(x, 0)",
    "broadcast by segments": "x = unisono.broadcast_object([x + 'x' * 100_000, np.frombuffer(x.encode() * 1000, 'u1').copy()], 0)",
    "all_gather": "x = unisono.all_gather_object(x)[0]",
    "all_gather by segments": "x = unisono.all_gather_object([x + 'x' * 100_000, np.frombuffer(x.encode() * 1000, 'u1').copy()])[0][0]",
    "gather": "x = unisono.gather_object(x, 1) if rank == 1 else unisono.gather_object(x, 1)",
    "scatter": "x = unisono.scatter_object([x, x] if rank == 0 else None, 0)",
    "message": "x = unisono.send_object(x, 1) if rank == 0 else unisono.recv_object(0)",
    "long message": "x = unisono.send_object(np.frombuffer(x.encode() * 4000, 'u1').copy(), 1) if rank == 0 else unisono.recv_object(0)",
    "results": "x = unisono.collect_results([x], 2) if rank == 0 else unisono.collect_results([x], 2)",
    "state": "state = unisono.ElasticState(text=x); state.step = 1 - rank; unisono.synchronize(state); x = state.text",
}


class Hosts(jobs.JobTest):
    def hosts(self, text, expect=None, **variables):
        """What two hosts with a rank each print."""
        return self.two_hosts("""
            unisono.initialize()
            rank = unisono.rank()
            x = "the object as it was sent"
            {}
            print(f"rank {{rank}} has {{str(x)[:60]}}", flush=True)
            unisono.barrier()
            unisono.finalize()
            """.format(text), expect, variables.pop("UNISONO_TOKEN", "the secret of these tests"), **variables)

    def test_objects_arrive_between_hosts(self):
        output = self.hosts("; ".join(["all = [x]"] + [call.replace("x = ", "y = ", 1).replace("state.text", "state.text; y = state.text")
                                                       for name, call in CALLS.items() if name != "state"]), expect=0)
        self.assertEqual(output.count("has " + SENT), 2, output)

    def test_objects_that_were_changed_are_refused(self):
        for name, call in CALLS.items():
            with self.subTest(name):
                output = self.hosts(call, LD_PRELOAD=CHANGING, CHANGE_FROM=SENT, CHANGE_TO=CHANGED)
                # A short message is a frame with a code already.
                self.assertRegex(output, "is not what that rank has sent: somebody changes the data between the hosts|a frame that was changed on the way")
                self.assertNotIn(CHANGED, output)

    def test_no_pickle_travels_between_hosts_without_a_token(self):
        for name in ("broadcast", "gather", "scatter", "message", "state"):
            with self.subTest(name):
                output = self.hosts(CALLS[name], UNISONO_TOKEN="none")
                self.assertIn("InvalidArgument", output)
                self.assertIn("between hosts without a token anybody could send them", output)
                self.assertNotIn("has " + SENT, output)
        output = self.hosts("x = unisono.broadcast_any(x, 0)", expect=0, UNISONO_TOKEN="none")
        self.assertEqual(output.count("has " + SENT), 2, output)
        self.assertIn("objects of group world travel between hosts without a code", output)


class Here(jobs.JobTest):
    def test_only_data_travels_where_pickle_is_off(self):
        output = self.ranks("""
        unisono.initialize()
        rank, size = unisono.rank(), unisono.world_size()
        state = unisono.ElasticState(text="x")
        state.step = rank
        for call in (lambda: unisono.broadcast_object(1), lambda: unisono.all_gather_object(1), lambda: unisono.gather_object(1),
                     lambda: unisono.broadcast("text"), lambda: unisono.scatter_object([1] * size), lambda: unisono.send_object(1, 1 - rank),
                     lambda: unisono.recv_object(1 - rank), lambda: unisono.collect_results([1], 2), lambda: unisono.synchronize(state),
                     lambda: unisono.collect_results([1], 2, via="shared_dir"), lambda: unisono.broadcast_object_list([1])):
            try: call()
            except unisono.InvalidArgument as error: assert "UNISONO_PICKLE=off" in str(error), error
            else: sys.exit("a pickle has travelled")
        assert unisono.broadcast_any("text" if rank == 0 else None) == "text" and unisono.all_reduce(1) == size
        assert unisono.all_gather(np.full(3, rank)).tolist() == [[0] * 3, [1] * 3]
        unisono.finalize()
        print("fine")
        """, UNISONO_PICKLE="off")
        self.assertEqual(output.count("fine"), 2, output)
        output = self.ranks("""
        unisono.initialize()
        unisono.all_gather_object(1)
        """, expect=1, UNISONO_PICKLE="no")
        self.assertIn("UNISONO_PICKLE is no; it must be `on` or `off`", output)

    def test_a_rank_that_others_may_no_longer_read_uses_the_slots(self):
        output = self.ranks("""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        if os.geteuid() == 0:  # root may read any process: without that right
            class Header(ctypes.Structure): _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
            class Sets(ctypes.Structure): _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]
            header, sets = Header(0x20080522, 0), (Sets * 2)()
            assert libc.capget(ctypes.byref(header), sets) == 0
            for kind in ("effective", "permitted"): setattr(sets[0], kind, getattr(sets[0], kind) & ~(1 << 19))  # CAP_SYS_PTRACE
            assert libc.capset(ctypes.byref(header), sets) == 0, ctypes.get_errno()
        unisono.initialize()
        rank, size, n = unisono.rank(), unisono.world_size(), 1 << 18
        def calls():
            for i in range(3):
                x = np.full(n, rank + 1.0)
                assert (unisono.all_reduce(x) == 6).all()
                assert (unisono.all_gather(np.full(n, float(rank)))[1] == 1).all()
                counts = [n] * size
                out = np.empty(n * size)
                unisono.all_to_all_v(np.full(n * size, float(rank)), counts, out, counts)
                assert out[n] == 1 and out[-1] == 2
                x = np.full(n, rank + 7.0)
                unisono.send_recv(np.full(n, float(rank)), (rank + 1) % size, x, (rank - 1) % size)
                assert (x == (rank - 1) % size).all()
                small = np.full(4000, float(rank))
                unisono.send_recv(np.full(4000, float(rank)), (rank + 1) % size, small, (rank - 1) % size)
                assert (small == (rank - 1) % size).all()
        calls()
        if rank == 1: libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
        calls()
        if rank == 1: libc.prctl(4, 1, 0, 0, 0)
        calls()
        unisono.finalize()
        print("fine")
        """, n=3, UNISONO_SINGLE_COPY="4")
        self.assertEqual(output.count("fine"), 3, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
