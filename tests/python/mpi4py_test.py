"""unisono and mpi4py in one process, with each MPI that PyPI has (scripts/get/mpi4py): they use one MPI, whichever of them is imported first."""

import os
import pathlib
import unittest

from jobs import JobTest, UNISONO

MPIS = pathlib.Path(os.environ["MPI4PY_FOLDER"])

BESIDE = """
first, backend = sys.argv[1:]
if first == "mpi4py":
    from mpi4py import MPI
unisono.initialize(backend)
if first != "mpi4py":
    from mpi4py import MPI
"""
BOTH = """
size, rank = unisono.world_size(), unisono.rank()
assert unisono.backend() == backend, unisono.backend()
assert (MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank) == (size, rank), (MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank)
x = np.full(1000, rank + 1.0)
unisono.all_reduce(x)
assert (x == size * (size + 1) / 2).all(), x
y = np.empty(1)
MPI.COMM_WORLD.Allreduce(np.full(1, rank + 1.0), y)
assert y[0] == size * (size + 1) / 2, y
"""
IMPORTED = BESIDE.replace("unisono.initialize(backend)\n", "") + "unisono.initialize(backend)\n"
END = """
with open("/proc/self/maps") as maps:
    mpis = {line.split()[-1] for line in maps if "/libmpi" in line}
assert len(mpis) == 1 and mpis.pop().startswith(sys.prefix), mpis
unisono.finalize()
print(f"fine of {size}\\n", end="", flush=True)
"""
STANDARD = """
import ctypes
path, backend = sys.argv[1:]
library = ctypes.CDLL(path)
assert library.MPI_Init(None, None) == 0
try:
    unisono.initialize(backend)
except unisono.BackendUnavailable as error:
    assert backend == "mpi" and f"the program has loaded {path} (the standard ABI)" in str(error), error
    size = 1
else:
    assert backend == "native"
    size, rank = unisono.world_size(), unisono.rank()
    x = np.full(1000, rank + 1.0)
    unisono.all_reduce(x)
    assert (x == size * (size + 1) / 2).all(), x
"""
END_STANDARD = END.replace("unisono.finalize()\n", "unisono.finalize()\nlibrary.MPI_Finalize()\n")


SPAWNING = """
from mpi4py import MPI
unisono.initialize("native")
children = MPI.COMM_WORLD.Spawn(sys.executable, sys.argv[1:], 2)
x = np.full(1000, unisono.rank() + 1.0)
unisono.all_reduce(x)
assert (x == 3).all(), x
children.Disconnect()
unisono.finalize()
print("a parent is fine\\n", end="", flush=True)
"""
SPAWNED = """
from mpi4py import MPI
unisono.initialize("native")
x = np.full(1000, unisono.rank() + 10.0)
unisono.all_reduce(x)
assert (x == 21).all(), x
unisono.finalize()
MPI.Comm.Get_parent().Disconnect()
print("a child is fine\\n", end="", flush=True)
"""


class BesideMpi4py:
    """The tests of one MPI."""

    mpi = ""

    def setUp(self):
        if not (MPIS / self.mpi / "complete").exists():
            self.skipTest(f"mpi4py with {self.mpi} is not installed (scripts/get/mpi4py)")
        super().setUp()

    def start(self, ranks, program, *arguments):
        """Runs a program alone, or as ranks that this MPI's own mpiexec starts."""
        output = self.output_of(ranks, program, *arguments)
        self.assertEqual(output.count(f"fine of {ranks}"), ranks, output)

    def output_of(self, ranks, program, *arguments):
        bin = MPIS / self.mpi / "bin"
        starter = [] if ranks == 1 else [bin / "mpiexec", "-n", str(ranks)]
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
        return self.run_command([*starter, bin / "python3", program, *arguments], UNISONO_TIMEOUT="60", **allowed)

    def beside(self, first, backend):
        program = self.program(IMPORTED + BOTH + END)
        for ranks in 1, 2:
            with self.subTest(ranks=ranks):
                self.start(ranks, program, first, backend)

    def test_native_works_after_mpi4py(self):
        self.beside("mpi4py", "native")

    def test_native_works_before_mpi4py(self):
        self.beside("unisono", "native")

    def test_mpi_works_after_mpi4py(self):
        self.beside("mpi4py", "mpi")

    def test_mpi_works_before_mpi4py(self):
        self.beside("unisono", "mpi")

    def test_a_job_on_native_is_formed_before_mpi4py_is_imported(self):
        program = self.program(BESIDE + BOTH + END)
        for ranks in 1, 2:
            with self.subTest(ranks=ranks):
                self.start(ranks, program, "unisono", "native")

    def test_ranks_of_unisono_run_are_ranks_of_mpi4py(self):
        kind = "openmpi" if self.mpi == "openmpi" else "mpich"
        command = [UNISONO, "run", "-n", "2", "--backend", "mpi", "--", MPIS / self.mpi / "bin" / "python3"]
        output = self.run_command([*command, self.program(IMPORTED + BOTH + END), "mpi4py", "mpi"], UNISONO_MPI=kind)
        self.assertEqual(output.count("fine of 2"), 2, output)


class StandardAbi:
    """The tests of an MPI that has the standard ABI as well, in a library of its own."""

    def test_the_standard_abi_is_left_alone_by_native(self):
        program = self.program(STANDARD + END_STANDARD)
        for ranks in 1, 2:
            with self.subTest(ranks=ranks):
                self.start(ranks, program, MPIS / self.mpi / "lib" / "libmpi_abi.so.1", "native")

    def test_the_standard_abi_is_refused_by_mpi(self):
        self.start(1, self.program(STANDARD + END_STANDARD.replace("unisono.finalize()\n", "")), MPIS / self.mpi / "lib" / "libmpi_abi.so.1", "mpi")


class OpenMpi(BesideMpi4py, JobTest):
    mpi = "openmpi"


class Mpich(BesideMpi4py, StandardAbi, JobTest):
    mpi = "mpich"

    def test_ranks_that_mpi_spawns_meet_apart_from_those_that_spawn_them(self):
        output = self.output_of(2, self.program(SPAWNING), self.program(SPAWNED, "spawned.py"))
        self.assertEqual((output.count("a parent is fine"), output.count("a child is fine")), (2, 2), output)


class IntelMpi(BesideMpi4py, StandardAbi, JobTest):
    mpi = "impi-rt"


if __name__ == "__main__":
    unittest.main()
