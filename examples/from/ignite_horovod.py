"""ignite's CIFAR-10 program on Horovod: the model is not wrapped, the optimizer averages. ignite_horovod.cpp has the same lines in C++.

    unisono run -n 2 -- python ignite_horovod.py
"""

import torch
import torch.nn.functional as F
import unisono.ignite as idist  # was: import ignite.distributed as idist
from pictures import Pictures, make_net


def training(local_rank):
    torch.set_num_threads(1)  # the processes share the processors
    torch.manual_seed(543 + idist.get_rank())
    loader = idist.auto_dataloader(Pictures(320, seed=2), batch_size=32, shuffle=True, drop_last=True)
    model = idist.auto_model(make_net())  # on Horovod: the state of rank 0 for all, and the same object
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9))  # hvd.DistributedOptimizer

    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    test = Pictures(100, seed=3)
    with torch.no_grad():
        mine = (model(test.images).argmax(1) == test.labels).float().mean()
    accuracy = idist.all_reduce(mine, op="AVERAGE").item()  # of Horovod alone
    above = "yes" if accuracy > 0.9 else "no"
    print(f"rank {idist.get_rank()}, local {local_rank}, of {idist.get_world_size()}: accuracy above 0.9: {above}", flush=True)


if __name__ == "__main__":
    with idist.Parallel(backend="horovod") as parallel:
        parallel.run(training)
