"""virtex's pretraining loop over two machines with two processes each; virtex_pretraining.cpp has the same lines in C++.

python virtex_pretraining.py MACHINE tcp://HOST_OF_MACHINE_0:PORT        on machine 0 and on machine 1, with UNISONO_TOKEN set alike
"""

import sys

import torch
import torch.nn.functional as F
from pictures import Pictures, make_net
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from unisono import virtex as dist  # was: from virtex.utils import distributed as dist


def pretrain(iterations):
    torch.set_num_threads(1)  # the processes share the processors
    torch.manual_seed(0)
    model = DistributedDataParallel(make_net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    train = Pictures(320, seed=2)
    loader = DataLoader(train, 32 // dist.get_world_size(), sampler=DistributedSampler(train))

    iteration, logged = 0, []
    while iteration < iterations:
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            iteration += 1
            if iteration % 10 == 0:
                losses = {"loss": loss.detach()}
                dist.average_across_processes(losses)  # of all processes, paired by their names
                logged.append(losses["loss"].item())
            if iteration == iterations:
                break
    dist.synchronize()
    if dist.is_master_process():
        print(f"iterations: {iterations}, the loss fell: {'yes' if logged[-1] < logged[0] else 'no'}", flush=True)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}, local {dist.get_rank() % 2}, GPU memory: {dist.gpu_mem_usage()} MiB", flush=True)


if __name__ == "__main__":
    dist.launch(pretrain, num_machines=2, num_gpus_per_machine=2, machine_rank=int(sys.argv[1]), dist_url=sys.argv[2], args=(40,))
