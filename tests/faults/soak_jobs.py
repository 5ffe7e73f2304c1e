"""The jobs of scripts/test/soak-faults: their launchers and ranks, what these say, and the network that they are in."""

import collections
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

LONGEST_HANG = 30.0  # seconds that a survivor may take
SILENCE = 4.0  # seconds after which ranks give up one that has stopped

# name: launchers, ranks of each, options
SHAPES = {
    "shm-2": (1, 2, []),
    "shm-4": (1, 4, []),
    "shm-7": (1, 7, []),
    "tcp-4": (1, 4, ["--backend", "tcp"]),
    "two-launchers": (2, 2, []),
    "three-launchers": (3, 1, []),
    "restarts": (1, 3, ["--max-restarts", "1000"]),
}


class Failed(Exception):
    """What the soak is for: something is not as it was promised."""


def eventually(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_with(variable):
    """Returns the living processes whose environment has this variable."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or not is_alive(folder.name):
            continue
        try:
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            pass
    return found


class Namespace:
    """A network of its own where that is possible: only then connections can be cut, and what is left be told from what others have."""

    def __init__(self):
        self.name = None
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("ss"):
            return
        name = f"soak-{os.getpid()}"
        if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0:
            self.name = name
            subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)

    def command(self, words):
        return ["ip", "netns", "exec", self.name, *words] if self.name else list(words)

    def sockets(self):
        """Returns the lines of ss: TCP sockets but those in TIME-WAIT, which belong to nobody, and local sockets with a name."""
        tcp = subprocess.run(self.command(["ss", "-Htanp", "exclude", "time-wait"]), capture_output=True, text=True, check=True).stdout.splitlines()
        local = subprocess.run(self.command(["ss", "-Hxap"]), capture_output=True, text=True, check=True).stdout.splitlines()
        return tcp + [line for line in local if "unisono" in line]

    def cut(self, connection):
        local, peer = connection
        subprocess.run(self.command(["ss", "-K", "-tn", "src", local, "dst", peer]), capture_output=True, check=True)

    def close(self):
        if self.name:
            subprocess.run(["ip", "netns", "delete", self.name], check=False)


class Job:
    """One job, with the output of its ranks and launchers."""

    port = 30000

    def __init__(self, shape, space, build, folder):
        self.shape, self.space, self.folder = shape, space, folder
        launchers, ranks, options = SHAPES[shape]
        self.lines, self.lock = [], threading.Lock()
        self.launchers, self.readers = [], []
        self.mark = f"SOAK_JOB={os.getpid()}.{time.monotonic_ns()}"
        environment = {**os.environ, "TMPDIR": str(folder), "SOAK_SILENCE_MS": str(int(SILENCE * 1000)), "OMP_NUM_THREADS": "1",
                       "UNISONO_TOKEN": "soak", **dict([self.mark.split("=", 1)])}
        Job.port += 1
        for node in range(launchers):
            command = [f"{build}/bin/unisono", "run", "-n", str(ranks), "--grace", "10", *options]
            if launchers > 1:
                command += ["--nnodes", str(launchers), "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", str(Job.port)]
                command += ["--silence", "5"]
            command += ["--", f"{build}/tests/soak_rank"]
            process = subprocess.Popen(space.command(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env=environment, text=True)
            self.launchers.append(process)
            reader = threading.Thread(target=self.read, args=(process.stdout,), daemon=True)
            reader.start()
            self.readers.append(reader)
        self.ranks = launchers * ranks
        self.attempt = 0

    def read(self, pipe):
        for line in pipe:
            with self.lock:
                self.lines.append((time.monotonic(), line.rstrip("\n")))

    def said(self, pattern, since=0.0):
        """Returns the matches of a pattern, in lines of ranks: (when, rank, match)."""
        with self.lock:
            lines = list(self.lines)
        found = []
        for when, line in lines:
            match = re.match(rf"\[[^\]]*?(\d+)\] +{pattern}", line)
            if match and when >= since:
                found.append((when, int(match[1]), match))
        return found

    def text(self):
        with self.lock:
            return "\n".join(line for _, line in self.lines[-60:])

    def wait_until_ready(self):
        """Waits until as many ranks as there are have said that they are ready, and all have done a round."""
        self.began = time.monotonic()
        wanted = (self.attempt + 1) * self.ranks
        if not eventually(lambda: len(self.said(r"ready")) >= wanted or self.is_over(), LONGEST_HANG) or self.is_over():
            raise Failed(f"not all ranks began within {LONGEST_HANG:.0f} s")
        begun = self.said(r"ready (\d+) (\w+)")[-self.ranks:]
        self.pids = {rank: int(match[2]) for _, rank, match in begun}
        self.id = begun[0][2][3]
        if len(self.pids) != self.ranks:
            raise Failed(f"these ranks began: {self.pids}")

    def is_over(self):
        return all(process.poll() is not None for process in self.launchers)

    def rounds(self, since=0.0):
        return sum(1 for _ in self.said(r"rounds \d+", since))

    def wait_for_rounds(self):
        """Every rank goes on, or nobody waits for it any more."""
        began = time.monotonic()
        goes_on = lambda: len({rank for _, rank, _ in self.said(r"rounds", began)}) == self.ranks  # noqa: E731
        if not eventually(goes_on, LONGEST_HANG):
            raise Failed(f"no rank was lost, and these went on within {LONGEST_HANG:.0f} s: {sorted({r for _, r, _ in self.said('rounds', began)})}")

    def connections(self):
        """Returns the connections between two ranks: a rank and a launcher have others."""
        ends = collections.defaultdict(set)
        for line in self.space.sockets():
            match = re.match(r"ESTAB +\d+ +\d+ +(\S+) +(\S+) .*soak_rank.*pid=(\d+)", line)
            if match:
                ends[frozenset(match.group(1, 2))].add((match[1], match[2], int(match[3])))
        return sorted(min(both)[:2] for both in ends.values() if len({pid for _, _, pid in both}) == 2)

    def end(self):
        for process in self.launchers:
            if process.poll() is None:
                process.kill()
        for pid in processes_with(self.mark):
            os.kill(pid, signal.SIGKILL)
