"""unisono.ignite's backend xla-tpu on XLA's devices of the cpu: alone, as threads of one process, and in processes of one device each. Starts its own jobs.

XLA_PYTHON is the Python that has torch_xla, which scripts/get/xla makes.
"""

import os
import re
import textwrap
import unittest

from covers import covers
from ignite_programs import IgniteTest
from jobs import UNISONO

PYTHON = os.environ.get("XLA_PYTHON", "")
PROGRAM = """
import torch_xla, torch_xla.runtime as xr

def values(local_rank, factor, offset=0):
    r, n, device = idist.get_rank(), idist.get_world_size(), idist.device()
    assert (idist.backend(), idist.model_name(), device.type, n, local_rank) == ("xla-tpu", "xla-dist", "xla", 2, r)
    assert (idist.get_local_rank(), idist.get_nproc_per_node(), idist.get_nnodes(), idist.get_node_rank()) == (r, 2, 1, 0)
    # reductions, in place, on the device and on the host, with all bits
    x = torch.tensor([1.0 + r, 2.0]).to(device)
    assert idist.all_reduce(x) is x and x.device == device and x.cpu().tolist() == [3, 4]
    for op, result in (("SUM", 5), ("AVG", 2), ("PRODUCT", 6), ("MIN", 2), ("MAX", 3), ("AND", 2), ("OR", 3)):
        assert idist.all_reduce(2 + r, op) == result, op
    assert idist.all_reduce((1 << 40) + r) == (1 << 41) + 1 and idist.all_reduce(0.1 * (r + 1)) == 0.1 + 0.2
    assert isinstance(error_of(idist.all_reduce, 1, "ABC"), ValueError) and isinstance(error_of(idist.all_reduce, 1, group="abc"), ValueError)
    # what is gathered and broadcast
    assert idist.all_gather(torch.full((1, 2), r + (1 << 40)).to(device)).cpu().tolist() == [[1 << 40] * 2, [(1 << 40) + 1] * 2]
    assert idist.all_gather(torch.tensor(r)).tolist() == [0, 1] and idist.all_gather("é" * (300 * r)) == ["", "é" * 300]
    assert idist.all_gather({"a": r}) == [{"a": 0}, {"a": 1}] and idist.broadcast(f"from {r}", src=1) == "from 1"
    z = torch.full((3,), -0.0 if r else float("nan")).to(device)
    assert idist.broadcast(z, src=1) is z and z.cpu().tolist() == [0, 0, 0] and torch.signbit(z.cpu()).all()
    got = idist.broadcast(torch.ones(2).to(device) if r == 0 else None, safe_mode=True)
    assert got.device.type == "xla" and got.cpu().tolist() == [1, 1]
    # groups
    assert idist.all_reduce(5, group=[1]) == 5 and idist.all_reduce(r, group=idist.new_group([0, 1])) == 1
    assert idist.all_gather("a", group=[0]) == (["a"] if r == 0 else "a") and idist.utils._rank_not_in_group([0]) == (r == 1)
    idist.barrier()
    return idist.all_reduce(factor) + offset, local_rank

def training(local_rank):
    from torch_xla.distributed.parallel_loader import MpDeviceLoader
    r, device = idist.get_rank(), idist.device()
    data = torch.utils.data.TensorDataset(torch.arange(22.0).reshape(11, 2) / 22, torch.arange(11.0))
    loader = idist.auto_dataloader(data, batch_size=4, shuffle=False, pin_memory=True)
    assert not loader._loader.pin_memory
    assert type(loader) is MpDeviceLoader and type(loader.sampler).__name__ == "DistributedSampler" and len(loader) == 3
    seen = [int(y) for _, ys in loader for y in ys.cpu()]
    assert seen == [*range(r, 11, 2)] + [0] * r, seen
    torch.manual_seed(r)
    given = torch.nn.Linear(2, 1)
    model = idist.auto_model(given)
    assert model is given and model.weight.device == device
    for p in model.parameters():
        idist.broadcast(p.data, src=0)
    own = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = idist.auto_optim(own)
    assert optimizer.wrapped_optimizer is own and isinstance(optimizer, torch.optim.SGD) and "nonsense" in str(error_of(idist.auto_optim, own, nonsense=1))
    whole = torch.nn.Linear(2, 1)
    whole.load_state_dict({name: value.cpu() for name, value in model.state_dict().items()})
    alone = torch.optim.SGD(whole.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        for x, y in loader:
            def closure():
                optimizer.zero_grad()
                loss = (model(x).squeeze(1) - y).square().mean()
                loss.backward()
                return loss
            if epoch:
                closure()
                assert optimizer.step() is None
            else:
                assert optimizer.step(closure).item() > 0
            alone.zero_grad()
            both = idist.all_gather(x.cpu()), idist.all_gather(y.cpu())
            (whole(both[0]).squeeze(1) - both[1]).square().mean().backward()
            alone.step()
    torch.testing.assert_close(model.weight.detach().cpu(), whole.weight.detach())
    assert len(optimizer.state_dict()["state"]) == 2
    return model.weight.cpu().tolist()

def fails(local_rank):
    if local_rank == 1:
        raise ValueError("bad data")
    idist.barrier()
"""


@unittest.skipUnless(os.access(PYTHON, os.X_OK), f"needs {PYTHON or 'a Python with torch_xla'}, which scripts/get/xla makes")
class Xla(IgniteTest):
    def job(self, text, command=(), expect=0, **environment):
        path = self.program(PROGRAM + textwrap.dedent(text))
        cache = os.path.join(os.path.dirname(os.path.dirname(PYTHON)), "cache")
        return self.run_command([*command, PYTHON, path], expect, timeout=900, PJRT_DEVICE="CPU", XDG_CACHE_HOME=cache, **environment)

    @covers("I-01", "I-03", "I-46", "I-47", "B-02", "B-03", "B-04", "B-08", "K-39", "A-16", "A-39")
    def test_a_process_alone_has_one_device(self):
        output = self.job(
            """
            assert idist.has_xla_support and "xla-tpu" in idist.available_backends()
            assert [kind.name for kind in idist.registered_computation_models] == ["serial", "native-dist", "xla-dist", "horovod-dist"]
            assert (idist.model_name(), idist.backend()) == ("serial", None)  # torch_xla is only installed
            idist.initialize("xla-tpu")
            assert (idist.model_name(), idist.backend(), idist.device()) == ("xla-dist", "xla-tpu", torch_xla.device())
            assert (idist.get_world_size(), idist.get_rank()) == (1, 0)
            assert idist.all_reduce(3) == 3 and idist.all_gather("a") == ["a"] and idist.all_gather(torch.ones(2).to(idist.device())).device.type == "xla"
            loader = idist.auto_dataloader(torch.utils.data.TensorDataset(torch.arange(4)))
            assert type(loader) is torch.utils.data.DataLoader and not loader.pin_memory
            model = idist.auto_model(torch.nn.Linear(2, 1), sync_bn=True)
            assert type(model) is torch.nn.Linear and model.weight.device.type == "xla"
            idist.finalize()
            assert idist.model_name() == "xla-dist"  # XLA's runtime is there, which the program could have begun itself
            assert isinstance(error_of(idist.Parallel, "xla-tpu", hosts="a"), TypeError)
            fine()
            """
        )
        self.assertIn("a rank is fine", output)

    @covers("I-06", "I-14", "I-21", "I-24", "I-30", "K-40", "K-43", "A-14", "A-15", "A-39", "A-51", "B-12", "B-13", "B-15", "B-16", "B-17", "B-18", "B-21")
    def test_devices_of_one_process_are_ranks_as_threads(self):
        output = self.job(
            """
            if __name__ == "__main__":
                for method in ("fork", "spawn"):
                    assert idist.spawn("xla-tpu", values, (2,), {"offset": 5}, nproc_per_node=2, start_method=method) == [(9, 0), (9, 1)]
                with idist.Parallel(backend="xla-tpu", nproc_per_node=2) as parallel:
                    first, second = parallel.run(training)
                assert first == second
                assert "CPU_NUM_DEVICES=2" in str(error_of(idist.spawn, "xla-tpu", values, (2,), nproc_per_node=3))
                for wrong in ({"join": False}, {"nnodes": 2}):
                    assert isinstance(error_of(idist.spawn, "xla-tpu", values, (2,), nproc_per_node=2, **wrong), ValueError), wrong
                error = error_of(idist.spawn, "xla-tpu", fails, (), nproc_per_node=2)
                assert "bad data" in str(error), error
                fine()
            """,
            CPU_NUM_DEVICES="2",
        )
        self.assertIn("a rank is fine", output)

    @covers("I-14", "I-15", "I-21", "I-24", "I-30", "K-40", "A-14", "A-15", "A-39", "A-51", "A-72", "B-12")
    def test_processes_of_one_device_each_are_ranks_that_spawn_starts(self):
        output = self.job(
            """
            if __name__ == "__main__":
                assert idist.spawn("xla-tpu", values, (2,), {"offset": 5}, nproc_per_node=2, timeout=100) == [(9, 0), (9, 1)]
                error = error_of(idist.spawn, "xla-tpu", fails, (), nproc_per_node=2)
                assert type(error).__name__ == "ProcessRaisedException" and error.error_index == 1 and "ValueError: bad data" in str(error), error
                fine()
            """
        )
        self.assertIn("a rank is fine", output)

    @covers("I-04", "A-69", "A-71", "A-74", "K-46")
    def test_processes_of_one_device_each_are_ranks_of_the_launcher(self):
        output = self.job(
            """
            with idist.Parallel(backend="xla-tpu", timeout=100) as parallel:
                assert parallel.run(values, 2) == [(4, idist.get_rank())]
                weights = idist.all_gather(parallel.run(training)[0])
                assert weights[0] == weights[1]
            try:
                with idist.Parallel(backend="xla-tpu") as parallel:
                    parallel.run(fails)
            except ValueError:
                fine()
            except RuntimeError as error:
                assert "rank 1 ended with ValueError: bad data" in str(error), error
                fine()
            """,
            [UNISONO, "run", "-n", "2", "--"],
        )
        self.assertEqual(len(re.findall("a rank is fine", output)), 2, output)


if __name__ == "__main__":
    os.environ.pop("RANK", None)
    unittest.main(verbosity=2)
