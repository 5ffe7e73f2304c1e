"""The systems that are compared: how each starts a job of two ranks, and whether this machine has it."""
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT = "5"  # seconds, of a call, where the system has such a thing


class Peer:
    name = title = ""
    missing = ""  # why it cannot run here
    by_environment = False  # its ranks find each other by MASTER_ADDR, RANK and WORLD_SIZE
    restarts = []

    def rank(self, mode):
        """The command of a rank."""
        raise NotImplementedError

    def launch(self, mode, ranks=2, more=()):
        raise NotImplementedError

    def plain(self):
        """Its launcher without an option but the number of ranks."""
        raise NotImplementedError


class Unisono(Peer):
    name, by_environment, restarts = "unisono", True, ["--max-restarts", "2"]

    def __init__(self, build):
        self.command, self.program = build / "bin/unisono", build / "tests/compare_rank"
        self.title = "unisono"
        if not self.command.exists() or not self.program.exists():
            self.missing = "it is not built: cmake --build --preset release --target unisono-tool compare_rank"

    def rank(self, mode):
        return [str(self.program), mode, TIMEOUT]

    def launch(self, mode, ranks=2, more=()):
        return [str(self.command), "run", "-n", str(ranks), *more, "--", *self.rank(mode)]

    def plain(self):
        return [str(self.command), "run", "-n", "2", "--", *self.rank("large")]


class Torch(Peer):
    name, by_environment, restarts = "torch", True, ["--max-restarts", "2"]

    def __init__(self, python):
        self.python = python
        if not python.exists():
            self.missing = "there is no PyTorch: scripts/get/torch fetches it into build/python"
            return
        told = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
        self.title = f"PyTorch {told.stdout.strip().split('+')[0]}, Gloo, torchrun"
        if told.returncode != 0:
            self.missing = "torch cannot be imported: " + (told.stderr.strip().splitlines() or ["?"])[-1]

    def rank(self, mode):
        return [str(self.python), "-B", str(HERE / "torch_rank.py"), mode, TIMEOUT]

    def launch(self, mode, ranks=2, more=()):
        run = [str(self.python), "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *more]
        return run + [str(HERE / "torch_rank.py"), mode, TIMEOUT]

    def plain(self):
        return [str(self.python), "-B", "-m", "torch.distributed.run", "--nproc-per-node", "2", str(HERE / "torch_rank.py"), "large", TIMEOUT]


class Mpi(Peer):
    def __init__(self, name, folder, compiler, launcher, options):
        self.name, self.options = name, options
        self.launcher, compiler = shutil.which(launcher), shutil.which(compiler)
        if not self.launcher or not compiler:
            self.missing = f"there is no {launcher} or its compiler (Debian: libopenmpi-dev, libmpich-dev)"
            return
        told = subprocess.run([self.launcher, "--version"], capture_output=True, text=True).stdout
        number = next((word for word in told.split() if word[:1].isdigit() and "." in word), "")
        self.title = ("Open MPI " if name == "openmpi" else "MPICH ") + number
        self.program = folder / f"{name}_rank"
        built = subprocess.run([compiler, "-O1", "-o", str(self.program), str(HERE / "mpi_rank.c")], capture_output=True, text=True)
        if built.returncode != 0:
            self.missing = "its program does not compile: " + built.stderr.strip()[:200]

    def rank(self, mode):
        return [str(self.program), mode]

    def launch(self, mode, ranks=2, more=()):
        return [self.launcher, *self.options, "-n", str(ranks), *self.rank(mode)]

    def plain(self):
        return [self.launcher, "-n", "2", *self.rank("large")]


def all_peers(build, source, folder):
    python = source / "build/python/bin/python"
    return [Unisono(build), Torch(python),
            Mpi("openmpi", folder, "mpicc.openmpi", "mpirun.openmpi", ["--allow-run-as-root", "--oversubscribe"]),
            Mpi("mpich", folder, "mpicc.mpich", "mpiexec.mpich", [])]
