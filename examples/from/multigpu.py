"""Processes with several GPUs each, as torch.distributed of 2018 had them; multigpu.cpp is the same in C++.

    unisono run -n 2 -- python multigpu.py
"""

import torch
import unisono.torch2018 as dist  # was: import torch.distributed as dist

dist.init_process_group("nccl" if torch.cuda.is_available() else "tcp")
rank = dist.get_rank()
devices = [torch.device("cuda", i % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device("cpu") for i in range(2)]


def tensors(first):
    return [torch.tensor([10.0 * rank + first + i], device=device) for i, device in enumerate(devices)]


x = tensors(1)
dist.all_reduce_multigpu(x)
print(f"rank {rank}: {x[0].item():g} {x[1].item():g}")

x = tensors(3)
dist.broadcast_multigpu(x, src=1)
print(f"rank {rank}: {x[0].item():g} {x[1].item():g}")

everything = [[torch.zeros(1, device=device) for _ in range(4)] for device in devices]
dist.all_gather_multigpu(everything, tensors(5))
print(f"rank {rank}:", *(f"{t.item():g}" for t in everything[1]))
dist.destroy_process_group()
