"""Objects of unisono.mmengine that cannot be sent: no rank waits for one that fails."""

import sys
import unittest

from jobs import UNISONO, JobTest
from mmengine_test import BEGIN, END, TIMEOUT


class Objects(JobTest):
    def test_what_cannot_be_pickled_is_an_error_on_every_rank(self):
        path = self.folder / "program.py"
        path.write_text(BEGIN + """
import threading
bad = threading.Lock()
def refused(is_its_own, text, call, *args):
    error = error_of(call, *args)
    assert isinstance(error, TypeError if is_its_own else ValueError) and "lock" in str(error), error
    assert is_its_own or text in str(error), error
for r in range(size):
    mine = bad if rank == r else rank
    refused(rank == r, f"rank {r} cannot take part", dist.all_gather_object, mine)
    refused(rank == r, f"rank {r} cannot take part", dist.gather_object, mine, 1)
    refused(rank == r, f"rank {r} cannot take part", dist.broadcast_object_list, [mine], r)
    refused(rank == r, f"rank {r} cannot take part", dist.collect_results, [mine], 10, "gpu")
many = [rank] * (1 + rank)
error = error_of(dist.broadcast_object_list, many, 0) if rank else dist.broadcast_object_list(many, 0)
assert rank == 0 or isinstance(error, ValueError) and "1 elements" in str(error), error
assert many == ([1, 1] if rank else [0]), many
assert dist.all_gather_object(rank) == [0, 1] and dist.gather_object([rank], 1) == ([[0], [1]] if rank else None)
os.environ["UNISONO_PICKLE"] = "off" if rank == 1 else "on"
for call, *args in ((dist.all_gather_object, 1), (dist.gather_object, 1), (dist.broadcast_object_list, [1], 1)):
    assert "UNISONO_PICKLE" in str(error_of(call, *args)), call
del os.environ["UNISONO_PICKLE"]
""" + END)
        output = self.run_command([UNISONO, "run", "-n", "2", "--", sys.executable, str(path)], timeout=TIMEOUT)
        self.assertEqual(output.count("fine"), 2, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
