"""unisono.torch2018.init_master_worker: rank 0 drives the others, and has tensors there. Starts its own jobs."""

import unittest

from covers import covers
from torch2018_programs import Jobs

import unisono

if not hasattr(unisono, "Controller"):
    print("skipped: this build has no unisono.Controller")
    raise SystemExit(0)


class MasterWorker(Jobs):
    @covers("T-10", "T-13", "T-14", "T-40", "K-02", "TS-48")
    def test_rank_0_drives_the_others_and_has_the_seven_types_of_tensors_there(self):
        output = self.ranks("""
        import warnings
        assert not hasattr(dist, "FloatTensor")
        def where(): return unisono.rank()
        before = dist.reduce_op, dist.group
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            workers = dist.init_master_worker("tcp")
        assert "Master-worker mode is still experimental" in str(told[0].message), told
        assert (dist.reduce_op, dist.group) == before and isinstance(workers, unisono.Controller)
        assert (dist.get_rank(), dist.get_world_size(), dist.is_initialized()) == (0, 3, False)
        assert (dist._initialized, dist._backend) == (dist._INITIALIZED_MW, dist.dist_backend.TCP)
        for call in (lambda: dist.all_reduce(torch.ones(1)), dist.barrier, dist.new_group):
            refused(AssertionError, "collective only supported in process-group mode", call)
        for call in (dist.init_process_group, dist.init_master_worker):
            refused(RuntimeError, "twice", call, "gloo")
        dtypes = {"Double": torch.float64, "Float": torch.float32, "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8,
                  "Byte": torch.uint8}
        for name, dtype in dtypes.items():
            kind, storage = getattr(dist, name + "Tensor"), getattr(dist, name + "Storage")
            x = kind(2, 3).fill_(2)
            assert isinstance(x, kind) and not isinstance(x.cpu(), kind) and (x.device, x.dtype) == (torch.device("remote:0"), dtype), x.device
            assert (x + kind([[1, 2, 3], [4, 5, 6]])).cpu().tolist() == [[3, 4, 5], [6, 7, 8]]
            assert kind(torch.ones(2), device="remote:1").device.index == 1 and kind(torch.Size([4])).shape == (4,) and kind().numel() == 0
            assert kind.storage_type() is storage and isinstance(storage(5), storage) and storage(5).shape == (5,)
            assert kind.is_signed() == (name != "Byte")
            for each in (kind, storage): assert each.is_distributed and not each.is_cuda and each.__doc__
        assert not isinstance(dist.IntTensor(1), dist.LongTensor)
        assert workers.call(where).result() == [0, 1]
        dist.destroy_process_group()
        assert (dist._initialized, dist._backend) == (0, dist.dist_backend.UNDEFINED)
        print("the master is done")
        """, n=3, timeout=300)
        self.assertEqual(output.count("the master is done"), 1, output)

    @covers("T-13", "K-02")
    def test_a_call_that_fails_leaves_nothing_behind(self):
        self.alone("""
        refused(RuntimeError, "Invalid distributed backend name", dist.init_master_worker, "udp")
        refused(AssertionError, "got unexpected keyword arguments: ranks", dist.init_master_worker, "tcp", ranks=2)
        place = f"file://{os.getcwd()}/f"
        refused(RuntimeError, "a controller needs workers", dist.init_master_worker, "tcp", init_method=place, rank=0, world_size=1)
        assert (dist._initialized, dist._backend) == (0, -1) and not unisono.is_initialized() and not hasattr(dist, "FloatTensor")
        dist.init_process_group("tcp", init_method=place, rank=0, world_size=1)
        total(1)
        """)
        output = self.ranks("""
        torch.utils.rename_privateuse1_backend("another")  # the program has a device of its own in the only place for one
        refused(RuntimeError, "another", dist.init_master_worker, "tcp")
        assert (dist._initialized, dist._backend) == (0, -1) and not unisono.is_initialized() and not hasattr(dist, "FloatTensor")
        print("nothing is left")
        """)
        self.assertEqual(output.count("nothing is left"), 1, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
