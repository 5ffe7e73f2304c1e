"""The newest PyTorch (scripts/get/torch --newest): its ranks compile the extension once, and pass the tests of the backend.

    newest_test.py PYTHON     PYTHON: the one that has it
"""

import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import jobs

HERE = Path(__file__).resolve().parent
PYTHON = sys.argv.pop(1)

AS_INSTALLED = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("unisono")
x = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(x)
assert x.item() == 3, x
dist.destroy_process_group()
os.write(1, f"fine with {torch.__version__}\\n".encode())  # at once: ranks share the output
"""


@unittest.skipUnless(os.access(PYTHON, os.X_OK), f"needs {PYTHON}, which scripts/get/torch --newest makes")
class Newest(jobs.JobTest):
    python = (PYTHON,)
    longest = 900

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.cache = folder.name

    def setUp(self):
        super().setUp()
        patch = mock.patch.dict(os.environ, XDG_CACHE_HOME=self.cache)
        patch.start()
        os.environ.pop("COVERAGE_FOLDER", None)  # the rows are counted for the PyTorch of the build
        self.addCleanup(patch.stop)

    def passes(self, name):
        output = self.run_command([jobs.UNISONO, "run", "-n", "2", "--", PYTHON, str(HERE / f"{name}.py")])
        self.assertRegex(output, r"Ran [1-9]\d* tests")
        self.assertLessEqual(output.count("compiling the backend"), 1)

    def test_the_collectives_pass_on_the_newest_pytorch(self):
        self.passes("collectives_test")

    def test_the_calls_pass_on_the_newest_pytorch(self):
        self.passes("calls_test")

    def test_the_training_passes_on_the_newest_pytorch(self):
        self.passes("training_test")

    def test_import_torch_is_enough(self):
        information = self.folder / "packages" / "unisono_torch-0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: unisono-torch\nVersion: 0\n")
        (information / "entry_points.txt").write_text("[torch.backends]\nunisono = unisono.torch:register\n")
        path = self.folder / "job.py"
        path.write_text(AS_INSTALLED)
        output = self.run_command([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(path)],
                                  PYTHONPATH=os.pathsep.join([str(information.parent), os.environ["PYTHONPATH"]]))
        self.assertEqual(output.count("fine with"), 2, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
