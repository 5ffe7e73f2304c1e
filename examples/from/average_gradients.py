"""Data-parallel training by hand, as the tutorial of 2018 did it; average_gradients.cpp has the same lines in C++.

    unisono run -n 2 -- python average_gradients.py
"""

import torch
import torch.nn.functional as F
import unisono.torch2018 as dist  # was: import torch.distributed as dist
from pictures import Pictures, make_net

BATCH_SIZE = 32  # of all ranks together


def average_gradients(model):
    """The tutorial's function. In C++ it is one call of unisono."""
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.reduce_op.SUM)
        param.grad.data /= size


dist.init_process_group("tcp")
torch.manual_seed(1234)  # the same parameters on all ranks
torch.set_num_threads(1)  # the ranks share the processors
train = Pictures(320, seed=2)
model = make_net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)

losses = []
for epoch in range(4):
    loss_of_epoch = 0.0
    for batch in torch.randperm(320).split(BATCH_SIZE):  # alike on all ranks, by the seed; the tutorial's DataPartitioner
        mine = batch.chunk(dist.get_world_size())[dist.get_rank()]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(train.images[mine]), train.labels[mine])
        loss.backward()
        average_gradients(model)
        optimizer.step()
        loss_of_epoch += loss.item()
    total = torch.tensor([loss_of_epoch])
    dist.all_reduce(total)
    losses.append(total.item() / dist.get_world_size())

alike = True
for parameter in model.parameters():
    copy = parameter.detach().clone()
    dist.broadcast(copy, src=0)
    alike = alike and torch.equal(copy, parameter)
fell = losses[-1] < losses[0] / 2
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: the loss fell: {'yes' if fell else 'no'}, parameters as on rank 0: {'yes' if alike else 'no'}")
dist.destroy_process_group()
