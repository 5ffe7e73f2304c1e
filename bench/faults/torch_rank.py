"""The ranks of PyTorch with Gloo that scripts/bench/compare-faults starts: torch_rank.py MODE SECONDS, with the deadline of its calls. It tells what happens
in lines "EVENT RANK SECONDS TEXT"."""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

mode, timeout = sys.argv[1], datetime.timedelta(seconds=int(sys.argv[2]))
rank = int(os.environ.get("RANK", -1))


def tell(event, text=""):
    os.write(1, f"{event} {rank} {time.clock_gettime(time.CLOCK_MONOTONIC):.6f} {' '.join(str(text).split())}\n".encode())


def differ():
    own = float(rank + 2)
    values = torch.full((2000 if mode == "count" and rank == 1 else 1000,), own)
    if mode == "width" and rank == 1:
        values = values.double()
    if mode == "dtype" and rank == 1:
        values = values.int()
    if mode == "operation" and rank == 1:
        dist.broadcast(values, 0)
    else:
        dist.all_reduce(values, dist.ReduceOp.PRODUCT if mode == "op" and rank == 1 else dist.ReduceOp.SUM)
    tell("result", values[0].item())
    dist.barrier()


def act():
    if mode == "loop":
        values, i = torch.zeros(1 << 18), 0
        while True:
            dist.all_reduce(values, dist.ReduceOp.MAX)
            i += 1
            if i == 20 or i % 200 == 0:
                tell("runs")
    if mode in ("exit", "seven"):
        dist.barrier()
        if rank == 1:
            tell("fault")
            os._exit(3 if mode == "exit" else 7)
        dist.barrier()
    elif mode == "large":
        values = torch.ones(1 << 20)
        for _ in range(5):
            dist.all_reduce(values)
        tell("result", values[0].item())
    elif mode != "join":
        differ()


try:
    dist.init_process_group("gloo", timeout=timeout)
    tell("ready", os.getpid())
    act()
    tell("done")
    dist.destroy_process_group()
except Exception as error:
    tell("knows", error)
    os._exit(1)
