"""The loop of mmengine's Runner: training, validation whose results are collected, logs and checkpoints of one rank.

mmengine_runner.cpp has the same lines in C++.      unisono run -n 2 -- python mmengine_runner.py [FOLDER]
"""

import os
import sys

import torch
import torch.nn.functional as F
import unisono.mmengine as dist  # was: import mmengine.dist as dist
from pictures import Pictures, make_net
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


class Runner:
    def __init__(self, work_dir):
        self.checkpoint = os.path.join(work_dir, "epoch_3.pth")
        torch.manual_seed(dist.sync_random_seed())  # one seed, drawn by rank 0
        train = Pictures(320, seed=2)
        self.loader = DataLoader(train, 32 // dist.get_world_size(), sampler=DistributedSampler(train, dist.get_world_size(), dist.get_rank()))
        self.model = DistributedDataParallel(make_net())  # MMDistributedDataParallel
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)

    def train(self):
        for epoch in range(1, 4):
            self.loader.sampler.set_epoch(epoch)
            log = {"loss": torch.zeros(()), "batches": torch.zeros(())}
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                log["loss"] += loss.detach()
                log["batches"] += 1
            dist.all_reduce_dict(log, op="mean")
            self.validate(epoch)
        self.save()
        dist.barrier()
        print(f"rank {dist.get_rank()} sees the checkpoint: {'yes' if os.path.exists(self.checkpoint) else 'no'}", flush=True)

    @dist.master_only
    def save(self):
        torch.save(self.model.module.state_dict(), self.checkpoint)

    @torch.no_grad()
    def validate(self, epoch):
        test = Pictures(99, seed=3)
        mine = range(dist.get_rank(), 99, dist.get_world_size())  # 99 samples are one too few for two ranks
        part = [bool(self.model(test.images[i : i + 1]).argmax(1) == test.labels[i]) for i in mine]
        results = dist.collect_results(part, 99, device="cpu")  # on rank 0, in the order of the samples
        if results is not None and epoch == 3:
            print(f"{len(results)} results, above 0.9: {'yes' if sum(results) > 0.9 * 99 else 'no'}", flush=True)


if __name__ == "__main__":
    dist.init_dist("pytorch", backend="gloo")
    torch.set_num_threads(1)  # the ranks share the processors
    Runner(sys.argv[1] if len(sys.argv) > 1 else ".").train()
    torch.distributed.destroy_process_group()
