"""The table of errors in docs/guide/torch-distributed.md: each of its rows is brought about, and what is said then is what the table quotes."""

import re
import sys
import textwrap
import unittest
from pathlib import Path

import jobs
from many_runs import WarmPython

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "guide" / "torch-distributed.md"

# The calls that bring a row about, by the beginning of its first column. `rank` 0 of 3 reads the error.
TRIGGERS = {
    "`DistBackendError`: `Timed out": """
        if rank == 0:
            error = error_of(lambda: dist.all_reduce(torch.ones(2), group=short))
        """,
    "`DistBackendError`: `was killed": """
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        error = error_of(lambda: dist.all_reduce(torch.ones(2)))
        """,
    "`DistBackendError`: `ended with": """
        if rank == 2:
            raise KeyError("label")
        error = error_of(lambda: dist.all_reduce(torch.ones(2)))
        """,
    "`DistBackendError`: `has left": """
        if rank == 2:
            dist.destroy_process_group()
            sys.exit()
        error = error_of(lambda: dist.all_reduce(torch.ones(2)))
        """,
    "`DistBackendError`: `exited with": """
        if rank == 2:
            sys.exit()
        error = error_of(lambda: dist.all_reduce(torch.ones(2)))
        """,
    "`DistBackendError`: `the ranks called different things": """
        error = error_of(lambda: dist.all_reduce(torch.ones(2 + rank % 2)))
        """,
    "`ValueError`: `Float8": """
        error = error_of(lambda: dist.all_reduce(torch.ones(2, dtype=torch.float8_e4m3fn)))
        """,
    "`NotImplementedError`: `Could": """
        error = error_of(lambda: dist.all_reduce(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)))
        """,
    "`ValueError`: `the ranks are on several hosts": None,
    "`NotImplementedError`: `the given store": None,
    "`ImportError`: `has no extension": None,
    "`DistBackendError`: `different versions": None,
    "`AssertionError`: `Unknown backend type": None,
}


def rows():
    """First columns of the table."""
    table = re.search(r"\| you see \|.*\n\|[-|]*\n((?:\|.*\n)+)", DOCUMENT.read_text())[1]
    return [line.split("|")[1].strip() for line in table.splitlines()]


class Table(jobs.JobTest):
    def quoted(self, row):
        """The error's type, and the pieces of its sentence, in their order."""
        kind, *pieces = re.findall("`([^`]*)`", row)
        return kind, ".*".join(map(re.escape, pieces))

    def test_every_row_says_what_is_said(self):
        self.assertEqual([next((t for t in TRIGGERS if row.startswith(t)), row) for row in rows()], list(TRIGGERS))
        warm = WarmPython()
        self.addCleanup(warm.close)
        self.python = warm.command
        for row, trigger in zip(rows(), TRIGGERS.values()):
            if trigger is None:
                continue
            with self.subTest(row):
                self.folder = self.folder / "next"
                self.folder.mkdir()
                kind, sentence = self.quoted(row)
                outputs = self.ranks(self.BY_FILE + textwrap.dedent("""
                short = dist.new_group(timeout=datetime.timedelta(seconds=4))  # within which it has to be formed as well
                """) + textwrap.dedent(trigger) + textwrap.dedent("""
                if rank == 0:
                    os.write(1, f"{type(error).__name__}: {error}\\n".encode())
                    open(sys.argv[0] + ".done", "w").close()
                while not os.path.exists(sys.argv[0] + ".done"):
                    time.sleep(0.02)
                """), n=3, expect=None)
                self.assertRegex(outputs[0], f"{kind}: .*{sentence}")

    def test_every_row_of_the_start_says_what_is_said(self):
        start = 'error = error_of(lambda: begin(init_method=os.environ["MEETING"], rank=int(os.environ["RANK"]), world_size=2))\n'
        causes = {
            "has no extension": """
                from unisono.torch import _extension
                _extension.EXTENSIONS = os.environ["PATH"] = os.environ["XDG_CACHE_HOME"] = os.path.dirname(sys.argv[0])
                os.environ.pop("CXX", None)
                """,
            "different versions": """
                from unisono.torch import _extension
                _extension.load()
                torch.__version__ = "2.99.0" if os.environ["RANK"] == "1" else torch.__version__
                """,
        }
        for words, cause in causes.items():
            self.folder = self.folder / "next"
            self.folder.mkdir()
            kind, sentence = self.quoted(next(row for row in rows() if words in row))
            for output in self.ranks(textwrap.dedent(cause) + start + 'print(f"{type(error).__name__}: {error}")\n'):
                self.assertRegex(output, f"{kind}: .*{sentence}")

    def test_a_backend_that_nobody_has_registered_is_named(self):
        row = next(row for row in rows() if "Unknown backend" in row)
        kind, sentence = self.quoted(row)
        import torch

        if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
            self.skipTest("older ones say it in other words")
        output = self.run_command([sys.executable, "-c", textwrap.dedent("""
        import torch.distributed as dist
        try:
            dist.init_process_group("unisono", store=dist.HashStore(), rank=0, world_size=1)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
        """)], PYTHONPATH="", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        self.assertRegex(output, f"{kind}: {sentence}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
