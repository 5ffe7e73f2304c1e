"""Type checkers in strict mode pass over a small program and find what is wrong in another one; scripts/get/python-tools brings them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import unisono

TOOLS = Path(os.environ.get("PYTHON_TOOLS_FOLDER", "nowhere"))
PROGRAM = Path(__file__).parent / "typed_program.py"

WRONG = [
    'unisono.all_reduce(1, tag="7")',
    "unisono.all_reduce(1, grp=None)",
    "unisono.get_rank()",
    "unisono.ReduceOp.SUM",
    "count: str = unisono.world_size()",
    "done: int = unisono.all_reduce(bytearray(8), async_op=True)",
    "unisono.spawn(print, nprocs=2)",
]


class Types(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        # The package as it would be installed, and nothing else of this tree.
        site = self.folder / "site"
        site.mkdir()
        (site / "unisono").symlink_to(Path(unisono.__file__).parent)
        shutil.copy(PROGRAM, self.folder)
        (self.folder / "wrong.py").write_text("import unisono\n\n" + "\n".join(WRONG) + "\n")

    def run_tool(self, name, *arguments):
        if not (TOOLS / "bin" / name).exists():
            self.skipTest(f"{name} is not here: scripts/get/python-tools brings it")
        done = subprocess.run([TOOLS / "bin" / name, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=600,
                              env=os.environ | {"MYPYPATH": str(self.folder / "site"), "PYTHONPATH": ""})
        return done.returncode, done.stdout + done.stderr

    def lines_with_errors(self, output):
        return {int(line) for line in re.findall(r"wrong\.py:(\d+)\S* (?:-? ?)error:", output)}

    def mypy(self, file):
        # Of a package that is installed mypy reports nothing either.
        return self.run_tool("mypy", "--strict", "--follow-imports=silent", "--python-executable", sys.executable, file)

    def pyright(self, file):
        (self.folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "extraPaths": ["site"], "reportMissingModuleSource": false}')
        return self.run_tool("basedpyright", "--pythonpath", sys.executable, file)

    def test_mypy_passes_over_a_program(self):
        self.assertEqual(self.mypy("typed_program.py"), (0, "Success: no issues found in 1 source file\n"))

    def test_mypy_finds_each_wrong_line(self):
        code, output = self.mypy("wrong.py")
        self.assertEqual((code, self.lines_with_errors(output)), (1, set(range(3, 3 + len(WRONG)))), output)

    def test_mypy_passes_over_the_stubs(self):
        code, output = self.run_tool("mypy", "--strict", "--follow-imports=silent", "--python-executable", sys.executable, "site/unisono/__init__.pyi", "site/unisono/_core.pyi")
        self.assertEqual((code, output), (0, "Success: no issues found in 2 source files\n"))

    def test_pyright_passes_over_a_program(self):
        code, output = self.pyright("typed_program.py")
        self.assertEqual(code, 0, output)
        self.assertIn("0 errors, 0 warnings", output)

    def test_pyright_finds_each_wrong_line(self):
        code, output = self.pyright("wrong.py")
        self.assertEqual((code, self.lines_with_errors(output)), (1, set(range(3, 3 + len(WRONG)))), output)

    def test_the_program_runs(self):
        done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[1], "[10, 10] [0, 1]")


if __name__ == "__main__":
    unittest.main()
