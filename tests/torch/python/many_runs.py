"""The same small job again and again, in all the ways to start one: it has to end as it should each time, and nobody may speak of a store.

    many_runs.py [--runs N] [--ways run,spawn,torchrun,env] [--kinds destroyed,not_destroyed,raises] [--ranks 4] [--warm]

    destroyed      every rank forms the group, prints and destroys it
    not_destroyed  every rank forms the group, prints and ends
    raises         one rank, another one in each run, raises as soon as the group is formed; the others print and end

--warm: ranks of the ways run and env are forked from a process that has imported torch (warm.py), which is ten times as quick.
"""

import argparse
import collections
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNISONO = os.environ.get("UNISONO_COMMAND") or shutil.which("unisono")
KINDS = ("destroyed", "not_destroyed", "raises")
WAYS = ("run", "spawn", "torchrun", "env")
# How PyTorch speaks of a store that is gone, on behalf of whoever wanted something of it.
STORE = re.compile(r"TCPStore|DistStoreError|DistNetworkError|sendBytes|recvValue|recvVector|Broken pipe|Connection reset|Connection refused")

PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
import unisono.torch

def job(rank, size):
    dist.init_process_group("unisono", rank=rank, world_size=size)
    if os.environ["KIND"] == "raises" and rank == int(os.environ["CULPRIT"]):
        raise ValueError("bad data")
    os.write(1, f"rank {rank} of {size} is fine\\n".encode())  # at once: ranks share the output, and print() writes in pieces
    if os.environ["KIND"] == "destroyed":
        dist.destroy_process_group()

if __name__ == "__main__" and os.environ["WAY"] == "spawn":
    import torch.multiprocessing as mp
    mp.spawn(job, (int(os.environ["RANKS"]),), nprocs=int(os.environ["RANKS"]))
elif __name__ == "__main__":
    job(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
"""


class WarmPython:
    """`command` runs a program as Python does, and need not import torch for it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        path = os.path.join(self.folder, "socket")
        self.server = subprocess.Popen([sys.executable, str(HERE / "warm.py"), "serve", path], stdout=subprocess.PIPE)
        if self.server.stdout.readline() != b"ready\n":
            raise RuntimeError("warm.py does not come up")
        self.command = [sys.executable, "-I", "-S", str(HERE / "warm.py"), path]

    def close(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()
        shutil.rmtree(self.folder)


class Runs:
    def __init__(self, ranks, warm=False, limit=300):
        self.ranks = ranks
        self.limit = limit
        self.folder = Path(tempfile.mkdtemp())
        self.program = self.folder / "program.py"
        self.program.write_text(PROGRAM)
        self.warm = WarmPython() if warm else None
        self.rank_command = [*(self.warm.command if warm else [sys.executable]), str(self.program)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.warm:
            self.warm.close()
        shutil.rmtree(self.folder)

    def environment(self, way, kind, number):
        ours = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        plain = {k: v for k, v in os.environ.items() if k not in ours}
        return plain | {"OMP_NUM_THREADS": "1", "KIND": kind, "WAY": way, "CULPRIT": str(number % self.ranks), "RANKS": str(self.ranks)}

    def run(self, way, kind, number):
        """Exit code and output; of the way env, that of the launcher that there is none of: 1 where any rank has failed."""
        environment = self.environment(way, kind, number)
        if way == "run":
            command = [UNISONO, "run", "-n", str(self.ranks), "--", *self.rank_command]
        elif way == "torchrun":
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}", str(self.program)]
        else:
            # A port that nobody else is given: this socket keeps it for the whole job, and does not listen, so that rank 0 may.
            holder = socket.socket()
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(holder.getsockname()[1])}
            if way == "env":
                return self.by_hand(environment, holder)
            command = [sys.executable, str(self.program)]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=self.limit, env=environment)
        except subprocess.TimeoutExpired as late:
            return None, (late.stdout or b"").decode(errors="replace")
        finally:
            if way == "spawn":
                holder.close()
        return done.returncode, done.stdout

    def by_hand(self, environment, holder):
        with holder, tempfile.TemporaryFile() as output:
            ranks = []
            for rank in range(self.ranks):
                own = environment | {"RANK": str(rank), "WORLD_SIZE": str(self.ranks)}
                ranks.append(subprocess.Popen(self.rank_command, stdout=output, stderr=subprocess.STDOUT, env=own))
            end = time.monotonic() + self.limit
            try:
                codes = [rank.wait(max(0.1, end - time.monotonic())) for rank in ranks]
            except subprocess.TimeoutExpired:
                codes = [None]
            for rank in ranks:
                rank.kill()
                rank.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
        return None if None in codes else max(map(abs, codes)), text

    def judge(self, way, kind, code, output):
        """What is wrong with it; empty where nothing is."""
        wrong = []
        expected = 1 if kind == "raises" else 0
        if code != expected:
            wrong.append(f"exit code {code}, not {expected}" if code is not None else "it did not end")
        if STORE.search(output):
            wrong.append("it speaks of a store")
        fine = len(re.findall(rf"rank \d+ of {self.ranks} is fine", output))
        if kind != "raises" and fine != self.ranks:
            wrong.append(f"{fine} of {self.ranks} ranks were fine")
        if kind == "raises" and "ValueError: bad data" not in output:
            wrong.append("it does not name the exception")
        return ", ".join(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--warm", action="store_true")
    options = parser.parse_args()
    failures = collections.Counter()
    with Runs(options.ranks, options.warm) as runs:
        for way in options.ways.split(","):
            if way == "run" and not UNISONO:
                print("the command unisono is not on PATH, and UNISONO_COMMAND does not name it: left out")
                continue
            for kind in options.kinds.split(","):
                begun = time.monotonic()
                for number in range(options.runs):
                    code, output = runs.run(way, kind, number)
                    wrong = runs.judge(way, kind, code, output)
                    if not wrong:
                        continue
                    failures[way, kind] += 1
                    if failures[way, kind] <= 3:
                        print(f"{way}, {kind}, run {number}: {wrong}\n{output}", flush=True)
                seconds = time.monotonic() - begun
                print(f"{way:9} {kind:14} {options.runs - failures[way, kind]:4} of {options.runs} right, {seconds:.0f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
