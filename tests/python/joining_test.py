"""The ways into a job that a program brings itself: stores, schemes, probes, groups without a job. And the calls that a rank keeps a record of."""

import shutil
import socket
import subprocess
import unittest

import jobs
import unisono
from covers import covers

ETCD = shutil.which("etcd", path="/usr/bin:/usr/local/bin")


class Options(jobs.JobTest):
    def test_options_stand_for_the_arguments(self):
        self.alone("""
        options = unisono.InitOptions("serial", timeout=5, group_name="these")
        assert (options.backend, options.init_method, options.rank, options.timeout, options.store) == ("serial", "env://", None, 5.0, None)
        options.rank, options.timeout, options.store = 0, 7, unisono.MemoryStore()
        options.world_size = 1
        try: unisono.initialize(options, timeout=3)
        except unisono.InvalidArgument as error: assert "beside" in str(error), error
        else: sys.exit(1)
        assert not unisono.is_initialized()
        with unisono.Context(options) as context:
            assert unisono.dist_info() == (0, 1) and unisono.model_name() == "serial"
            unisono.all_reduce(1)
            assert context.record()[-1].operation == "all_reduce"
        options.store = None
        for attribute, wrong in (("backend", "none such"), ("init_method", "none://such")):
            right = getattr(options, attribute)
            setattr(options, attribute, wrong)
            try: unisono.initialize(options)
            except unisono.InvalidArgument as error: assert wrong.removesuffix("://such") in str(error), error
            else: sys.exit(1)
            setattr(options, attribute, right)
        """)

    @covers("TS-42")
    def test_a_scheme_has_a_handler(self):
        output = self.ranks("""
        from pathlib import Path
        rank = int(os.environ["RANK"])
        def meet(options):
            assert options.init_method == "board://here" and options.timeout == 30
            if failing: raise KeyError("no board")
            return unisono.Rendezvous(unisono.FileStore(sys.argv[0] + ".store"), rank, 2) if not wrong else "no rendezvous"
        unisono.register_rendezvous_handler("board", meet)
        for scheme, handler in (("board", meet), ("env", meet), ("Not a scheme", meet), ("other", 3)):
            try: unisono.register_rendezvous_handler(scheme, handler)
            except unisono.InvalidArgument: pass
            else: sys.exit(1)
        failing, wrong = True, False
        try: unisono.initialize(init_method="board://here", timeout=30)
        except KeyError as error: assert error.args == ("no board",), error
        failing, wrong = False, True
        try: unisono.initialize(init_method="board://here", timeout=30)
        except unisono.InvalidArgument as error: assert "Rendezvous" in str(error), error
        wrong = False
        unisono.initialize(init_method="board://here", timeout=30)
        print("sum", unisono.all_reduce(rank + 1))
        """)
        self.assertEqual(output.count("sum 3"), 2, output)

    def test_a_handler_cannot_begin_or_end_the_context_itself(self):
        self.alone("""
        for n, within in enumerate((lambda: unisono.initialize("serial"), unisono.finalize, unisono.sync)):
            def meet(options, within=within):
                assert unisono.rank() == 0 and not unisono.is_initialized()
                within()
            unisono.register_rendezvous_handler(f"h{n}", meet)
            try: unisono.initialize("native", init_method=f"h{n}://x", timeout=2)
            except unisono.InvalidArgument as error: assert "cannot begin or end the context" in str(error), error
            else: sys.exit(1)
            unisono.initialize("serial")
            unisono.finalize()
        """, timeout=120)

    def test_a_probe_knows_a_job(self):
        self.alone("""
        formed = None
        unisono.register_context_probe(lambda: formed)
        assert unisono.model_name() == "serial" and not unisono.is_initialized()
        try: unisono.register_context_probe("no function")
        except unisono.InvalidArgument: pass
        else: sys.exit(1)
        formed = "what is no InitOptions"
        try: unisono.sync()
        except unisono.InvalidArgument as error: assert "InitOptions" in str(error), error
        else: sys.exit(1)
        formed = unisono.InitOptions("tcp", rank=0, world_size=1, store=unisono.MemoryStore())
        unisono.sync()
        assert unisono.is_initialized() and unisono.world().backend() == "tcp", unisono.world()
        unisono.finalize()
        """)

    @covers("TS-40")
    def test_torchrun_is_known_by_its_variables(self):
        text = "print(unisono.is_torchelastic_launched())"
        self.assertIn("False", self.alone(text))
        self.assertIn("True", self.alone(text, TORCHELASTIC_RUN_ID="7"))


class Members(jobs.JobTest):
    @covers("TS-22")
    def test_groups_beside_the_job_have_ranks_of_their_own(self):
        output = self.ranks("""
        unisono.initialize(timeout=30)
        rank, store = unisono.rank(), unisono.FileStore(sys.argv[0] + ".store")
        turned = unisono.Membership(unisono.PrefixStore("turned", store), 2 - rank, 3, name="turned", timeout=30)
        assert unisono.all_gather(rank, group=turned.group()) == [2, 1, 0] and turned.group().name() == "turned"
        if rank != 1:
            with unisono.Membership(unisono.PrefixStore("pair", store), rank // 2, 2) as member:
                assert unisono.all_reduce(rank + 10, group=member.group()) == 22
        assert unisono.all_reduce(1) == 3
        turned.leave()
        turned.leave()
        try: turned.group()
        except unisono.NotInitialized: pass
        else: sys.exit(1)
        try: unisono.Membership(store, 3, 3)
        except unisono.InvalidArgument as error: assert "rank" in str(error), error
        else: sys.exit(1)
        try: unisono.Membership(unisono.PrefixStore(f"late {rank}", store), 0, 2, timeout=0.2)
        except unisono.Timeout: pass
        else: sys.exit(1)
        assert unisono.all_reduce(1) == 3
        print("fine")
        """, n=3)
        self.assertEqual(output.count("fine"), 3, output)

    def test_a_group_lasts_as_long_as_it_is_referred_to(self):
        output = self.ranks("""
        import gc
        unisono.initialize(timeout=30)
        rank, store = unisono.rank(), unisono.FileStore(sys.argv[0] + ".store")
        def member(name):
            return unisono.Membership(unisono.PrefixStore(name, store), rank, 2, timeout=30)
        def works(group):
            gc.collect()
            assert unisono.all_reduce(1, group=group) == 2
        works(member("temporary").group())
        group = member("kept").group()
        works(group)
        group = unisono.split_group(group, 0)
        works(group)
        grid = unisono.Grid((2, 1), group=group)
        del group
        grid = grid.along((0,))
        works(grid.group())
        group = grid.group()
        del grid
        works(group)
        print("fine")
        """)
        self.assertEqual(output.count("fine"), 2, output)

    def test_a_membership_that_only_its_group_holds_ends_with_the_program(self):
        output = self.ranks("""
        rank, store = int(os.environ["RANK"]), unisono.FileStore(sys.argv[0] + ".store")
        group = unisono.Membership(store, rank, 2, timeout=30).group()
        if rank == 0: sys.exit(0)
        try: unisono.all_reduce(1, group=group)
        except unisono.PeerFailed as error: print("told", error)
        """)
        self.assertRegex(output, r"\[1\] told .*rank 0")

    def test_an_exception_that_leaves_the_scope_is_told(self):
        output = self.ranks("""
        rank, store = int(os.environ["RANK"]), unisono.FileStore(sys.argv[0] + ".store")
        try:
            with unisono.Membership(store, rank, 2, timeout=30) as member:
                if rank == 0: raise ValueError("bad data")
                unisono.barrier(member.group())
        except (ValueError, unisono.PeerFailed) as error:
            print(type(error).__name__, error)
        """)
        self.assertIn("[0] ValueError bad data", output)
        self.assertRegex(output, r"\[1\] PeerFailed .*ended with ValueError: bad data")

    def test_a_program_that_ends_without_leaving_says_how(self):
        output = self.ranks("""
        rank, store = int(os.environ["RANK"]), unisono.FileStore(sys.argv[0] + ".store")
        member = unisono.Membership(store, rank, 2, timeout=30)
        if rank == 0: raise ValueError("bad data")
        try: unisono.barrier(member.group())
        except unisono.PeerFailed as error: print(error)
        """, expect=None)
        self.assertRegex(output, r"\[1\] .*ended with ValueError: bad data")


@unittest.skipUnless(ETCD, "there is no etcd on this machine (Debian: etcd-server)")
class Etcd(jobs.JobTest):
    def setUp(self):
        super().setUp()
        try:
            unisono.EtcdStore("etcd://127.0.0.1:9/nothing", timeout=0.01)
        except unisono.BackendUnavailable as error:
            self.skipTest(f"this build has no client of etcd: {error}")
        except unisono.Timeout:
            pass
        sockets = [socket.socket() for _ in range(2)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        client, peer = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in sockets)
        for each in sockets:
            each.close()
        self.place = client.removeprefix("http://")
        data = self.folder / "data"
        self.etcd = subprocess.Popen(
            [ETCD, "--name=test", f"--data-dir={data}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
             f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}", "--unsafe-no-fsync"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.etcd.wait)
        self.addCleanup(self.etcd.kill)

    def test_the_processes_meet_in_a_store_of_etcd(self):
        url = f"etcd://{self.place}/job"
        store = unisono.EtcdStore(url, timeout=30)
        self.assertEqual((store.url, store.timeout), (url, 30.0))
        store.set("key", b"\0text")
        self.assertEqual((store.get("key"), store.add("n", 5), store.add("n", -2), store.try_get("other")), (b"\0text", 5, 3, None))
        self.assertEqual(store.compare_set("key", b"\0text", "new"), b"new")
        with self.assertRaisesRegex(unisono.Timeout, "other"):
            store.get("other", timeout=1)
        output = self.ranks(f"""
        store = unisono.EtcdStore("{url}", timeout=30)
        assert store.get("key") == b"new"
        unisono.initialize(store=unisono.PrefixStore("meeting", store), rank=int(os.environ["RANK"]), world_size=2, timeout=30)
        print("sum", unisono.all_reduce(unisono.rank() + 1))
        """)
        self.assertEqual(output.count("sum 3"), 2, output)
        self.assertTrue(store.erase("key"))

    def test_wrong_urls_and_an_etcd_that_is_gone_are_errors(self):
        for url in ("http://127.0.0.1", "etcd://", ""):
            with self.assertRaises(unisono.InvalidArgument):
                unisono.EtcdStore(url, timeout=1)
        self.etcd.kill()
        self.etcd.wait()
        with self.assertRaisesRegex(unisono.Timeout, self.place.replace(".", r"\.")):
            unisono.EtcdStore(f"etcd://{self.place}/job", timeout=0.2)


class Records(jobs.JobTest):
    def test_the_last_calls_are_told(self):
        output = self.ranks("""
        unisono.initialize(timeout=30)
        before = time.monotonic()
        unisono.all_reduce(np.ones(10_000, "float32"))
        unisono.broadcast_async(np.ones(3), 1).wait()
        try: unisono.all_reduce(np.ones(2 + unisono.rank()))
        except unisono.Mismatch: pass
        reduced, sent, refused = unisono.record()[-3:]
        assert (reduced.operation, reduced.group, reduced.bytes, reduced.dtype, reduced.peer) == ("all_reduce", "world", 40_000, "float32", None), reduced
        assert reduced.place == "program.py:8" and reduced.state == unisono.CallRecord.State.done, reduced
        assert reduced.queued is None and before <= reduced.begun <= reduced.done <= time.monotonic(), reduced
        assert (sent.operation, sent.peer, sent.sequence) == ("broadcast", 1, reduced.sequence + 1) and sent.queued >= reduced.done, sent
        assert refused.state == unisono.CallRecord.State.failed and "failed" in repr(refused), refused
        unisono.finalize()
        try: unisono.record()
        except unisono.NotInitialized: print("fine")
        """)
        self.assertEqual(output.count("fine"), 2, output)

    def test_a_culprit_in_the_world_is_told(self):
        output = self.ranks("""
        unisono.initialize(timeout=30)
        group = unisono.new_group([2, 1])
        if group:
            try: unisono.all_reduce(np.ones(3) if unisono.rank() == 2 else np.ones(3, "int8"), group=group)
            except unisono.Mismatch as error: assert error.culprit is error.world_culprit is None, error
            if unisono.rank() == 1: group.abort("enough")
            try: unisono.barrier(group)
            except unisono.PeerFailed as error: print("culprit", error.culprit, error.world_culprit)
        """, n=3)
        self.assertEqual(output.count("culprit 1 1"), 2, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
