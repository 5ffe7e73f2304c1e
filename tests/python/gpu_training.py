"""DistributedDataParallel on a GPU through unisono, for scripts/test/gpu: the ranks, which may share the GPU, train as one process on the whole batch does."""

import os

import torch
import torch.distributed as dist
import unisono.torch  # noqa: F401
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("unisono")
rank, size = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
torch.cuda.set_device(device)


def train(wrap, rows):
    torch.manual_seed(3)
    model = wrap(torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device, torch.float64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(20):
        x = torch.randn(16, 32, generator=torch.Generator().manual_seed(step), dtype=torch.float64).to(device)
        optimizer.zero_grad()
        (model(x[rows]) - x[rows].sin().sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


together = train(lambda model: DistributedDataParallel(model, device_ids=[device.index]), slice(rank, None, size))
alone = train(lambda model: model, slice(None))
apart = max((a - b).abs().max().item() for a, b in zip(together, alone))
assert apart < 1e-9, f"rank {rank}: the parameters are {apart} apart from those of one process"
if rank == 0:
    print(f"DistributedDataParallel on {device}, {size} ranks: {apart:.1e} apart from one process", flush=True)
dist.destroy_process_group()
