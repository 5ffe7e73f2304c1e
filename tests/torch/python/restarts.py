"""Jobs under torchrun --max-restarts in which a rank ends in the first attempt: the next one must be complete.

    restarts.py [--runs N] [--agents 1,2] [--kinds kill,_exit,raises] [--moments joining,grouping,working]

    joining   the rank ends while the others wait for it in init_process_group
    grouping  while they wait for it in new_group
    working   while they wait for it in all_reduce
"""

import argparse
import collections
import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = ("kill", "_exit", "raises")
MOMENTS = ("joining", "grouping", "working")
RANKS = 2

PROGRAM = """
import datetime, faulthandler, os, signal, sys
faulthandler.dump_traceback_later(600, exit=True)
import torch
import torch.distributed as dist
import unisono.torch
from unisono.torch import _extension

torch.set_num_threads(1)
kind, moment, victim, folder = sys.argv[1:]
rank = int(os.environ["RANK"])

def end(now):
    fell = os.path.join(folder, "fell")
    if now != moment or rank != int(victim) or os.path.exists(fell):
        return
    open(fell, "w").close()
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "_exit":
        os._exit(7)
    raise ValueError("bad data")

# The calls that make a group: the victim ends there, once the other one has taken its seat and waits.
moments = iter(["joining", "grouping"])
places = iter(["", "of rank 0/"])
original = _extension.create
def create(options, *more):
    now, place = next(moments), next(places)
    if now == moment and rank == int(victim):
        options.store.wait([f"{place}unisono/rendezvous//1/rank/{1 - rank}"])
        end(now)
    return original(options, *more)
_extension.create = create

dist.init_process_group("unisono", timeout=datetime.timedelta(seconds=60))
x = torch.tensor([float(rank + 1)])
dist.all_reduce(x)
group = dist.new_group(list(range(dist.get_world_size())))
end("working")
dist.all_reduce(x, group=group)
assert x.item() == 6, x
dist.destroy_process_group()
os.write(1, f"rank {rank} is fine\\n".encode())
"""


def run_once(agents, kind, moment, victim):
    """Empty where all went well, else what was written."""
    folder = Path(tempfile.mkdtemp())
    holder = socket.socket()  # keeps the port from being given to others; does not listen
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    try:
        (folder / "program.py").write_text(PROGRAM)
        command = [sys.executable, "-m", "torch.distributed.run", "--max-restarts=1", "--monitor-interval=0.1", f"--nproc-per-node={RANKS // agents}"]
        if agents == 1:
            command += ["--standalone"]
        else:
            port = holder.getsockname()[1]
            command += [f"--nnodes={agents}", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-id={port}"]
        command += [str(folder / "program.py"), kind, moment, str(victim), str(folder)]
        ours = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        environment = {k: v for k, v in os.environ.items() if k not in ours} | {"OMP_NUM_THREADS": "1"}
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) for _ in range(agents)]
        output = "".join(process.communicate()[0] for process in started)  # whose ranks end after ten minutes at the latest
        fell = (folder / "fell").exists()
        fine = len(re.findall(r"rank \d+ is fine", output)) == RANKS
        return "" if fell and fine and not any(process.returncode for process in started) else output or "nothing was written"
    finally:
        holder.close()
        shutil.rmtree(folder)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=20)
    options.add_argument("--agents", default="1,2")
    options.add_argument("--kinds", default=",".join(KINDS))
    options.add_argument("--moments", default=",".join(MOMENTS))
    options = options.parse_args()
    failed = collections.Counter()
    for agents, kind, moment in itertools.product(map(int, options.agents.split(",")), options.kinds.split(","), options.moments.split(",")):
        for run in range(options.runs):
            if output := run_once(agents, kind, moment, run % RANKS):
                failed[agents, kind, moment] += 1
                print(output)
        recovered = options.runs - failed[agents, kind, moment]
        print(f"{agents} agent{'s' if agents > 1 else ''}, {kind}, {moment}: {recovered} of {options.runs} recovered", flush=True)
    sys.exit(1 if failed.total() else 0)


if __name__ == "__main__":
    main()
