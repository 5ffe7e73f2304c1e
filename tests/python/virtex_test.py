"""unisono.virtex: its names, and what its functions do alone, in processes it starts, and in a job. Starts its own jobs."""

import importlib.util
import inspect
import unittest

from covers import covers
from jobs import JobTest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("unisono.torch") is None:
    print("skipped: the package torch or unisono-torch is missing")
    raise SystemExit(0)

import torch

from unisono import virtex

# The functions of virtex.utils.distributed and their arguments; virtex is in no registry.
ORIGINAL = {
    "launch": ["job_fn", "num_machines", "num_gpus_per_machine", "machine_rank", "dist_url", "args"],
    "synchronize": [],
    "get_world_size": [],
    "get_rank": [],
    "is_master_process": [],
    "average_across_processes": ["t"],
    "gpu_mem_usage": [],
}


class Alone(unittest.TestCase):
    def test_names_and_arguments_are_those_of_the_original(self):
        for name, arguments in ORIGINAL.items():
            parameters = inspect.signature(getattr(virtex, name)).parameters.values()
            self.assertEqual([p.name for p in parameters if p.kind is not p.KEYWORD_ONLY], arguments, name)
            self.assertIn(name, virtex.__all__)
            self.assertTrue(getattr(virtex, name).__doc__, name)

    @covers("V-06", "V-07", "V-08", "V-09", "V-10", "V-11", "K-55", "K-56")
    def test_a_process_alone_is_rank_0_of_1(self):
        self.assertEqual((virtex.get_world_size(), virtex.get_rank(), virtex.get_local_rank(), virtex.is_master_process()), (1, 0, 0, True))
        virtex.synchronize()
        x = torch.tensor([1.0, 2.0])
        self.assertIsNone(virtex.average_across_processes({"a": x, "b": {"c": torch.tensor(3)}}))
        self.assertEqual(x.tolist(), [1.0, 2.0])
        self.assertRaises(TypeError, virtex.average_across_processes, {"a": [x]})
        self.assertEqual(virtex.gpu_mem_usage() > virtex.gpu_mem_peak(), False)

    @covers("V-01", "K-51", "K-52")
    def test_launch_of_one_process_runs_in_this_one(self):
        self.assertEqual(virtex.launch(lambda a: (a, virtex.get_world_size(), torch.distributed.get_backend()), args=(4,)), [(4, 1, "unisono")])
        self.assertFalse(torch.distributed.is_initialized())
        self.assertEqual(virtex.launch(lambda config, resume=None: (config, resume, virtex.get_local_rank()), args=(4,)), [(4, None, 0)])
        self.assertRaises(TypeError, virtex.launch, lambda local_rank, a: a, args=(4,))
        with self.assertRaises(ZeroDivisionError):
            virtex.launch(lambda: 1 / 0)
        self.assertFalse(torch.distributed.is_initialized())

    @covers("V-02")
    def test_wrong_arguments_are_refused(self):
        for how in ({"num_machines": 0}, {"num_gpus_per_machine": 0}, {"machine_rank": 1}, {"num_machines": 2}):
            self.assertRaises(ValueError, virtex.launch, print, **how)


class Jobs(JobTest):
    @covers("K-53", "K-54", *(f"V-{row:02}" for row in range(1, 11)))
    def test_launch_runs_a_job_in_several_processes(self):
        output = self.alone(
            """
            import torch, unisono.virtex as virtex
            def job(scale):
                torch.set_num_threads(1)
                r = virtex.get_rank()
                assert virtex.get_world_size() == 2 and virtex.get_local_rank() == r and virtex.is_master_process() == (r == 0)
                loss = torch.tensor(scale * (r + 1.0))
                assert virtex.average_across_processes(loss) is None and loss.item() == 1.5 * scale
                counts = torch.tensor([r + 2, -3 - r])
                virtex.average_across_processes(counts)
                assert counts.tolist() == [2, -3], counts
                # each rank has its own order of keys
                names = ["a", "b", "c"] if r == 0 else ["c", "a", "b"]
                values = {name: torch.full((2,), ord(name) + 10.0 * r) for name in names} | {"in": {"d": torch.tensor(float(r))}}
                virtex.average_across_processes(values)
                assert all(values[name].eq(ord(name) + 5.0).all() for name in names) and values["in"]["d"].item() == 0.5, values
                for wrong in ({"a": loss, "b": loss} if r else {"a": loss}, {"x": 1.0}):
                    try:
                        virtex.average_across_processes(wrong)
                    except (ValueError, TypeError):
                        continue
                    raise AssertionError(wrong)
                flags = torch.tensor([r == 0, True])
                try:
                    virtex.average_across_processes({"a": counts, "b": flags})
                except TypeError:
                    assert counts.tolist() == [2, -3], counts  # nothing was averaged
                else:
                    raise AssertionError(flags)
                # rank 1 comes when rank 0 waits already, and says so before it does: rank 0 does not pass before
                if r == 1:
                    while not os.path.exists(f"waits {scale}"):
                        time.sleep(0.001)
                    time.sleep(0.05)
                    open(f"comes {scale}", "w").close()
                else:
                    open(f"waits {scale}", "w").close()
                virtex.synchronize()
                assert os.path.exists(f"comes {scale}")
                return r, loss.item()
            if __name__ == "__main__":
                assert virtex.launch(job, num_gpus_per_machine=2, args=(4,)) == [(0, 6.0), (1, 6.0)]
                assert virtex.launch(job, num_gpus_per_machine=2, dist_url=f"file://{os.getcwd()}/meeting", args=(2,), timeout=100)[1] == (1, 3.0)
                print("fine")
            """,
            timeout=300,
        )
        self.assertTrue(output.rstrip().endswith("fine"), output)

    def test_calls_work_in_a_job(self):
        output = self.ranks(
            """
            import torch, torch.distributed as dist, unisono.virtex as virtex
            dist.init_process_group("unisono")
            x = torch.tensor(float(virtex.get_rank()))
            virtex.average_across_processes(x)
            virtex.synchronize()
            os.write(1, f"average {x.item()}\\n".encode())
            dist.destroy_process_group()
            """
        )
        self.assertEqual(output.count("average 0.5"), 2, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
