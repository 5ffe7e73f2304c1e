"""The main program of ignite's CIFAR-10 example, on small data; ignite_cifar10.cpp has the same lines in C++.

Started alone it starts two processes; under `unisono run`, with the argument "launched", it trains in that job.
"""

import sys

import torch
import torch.nn.functional as F
import unisono.ignite as idist  # was: import ignite.distributed as idist
from pictures import Pictures, make_net

CONFIG = {"seed": 543, "batch_size": 32, "learning_rate": 0.02, "momentum": 0.9, "epochs": 3}


@torch.no_grad()
def evaluate(model):
    model.eval()
    mine = torch.arange(idist.get_rank(), 100, idist.get_world_size())
    test = Pictures(100, seed=3)
    right = (model(test.images[mine]).argmax(1) == test.labels[mine]).sum().item()
    model.train()
    return idist.all_reduce(right) / 100


def training(local_rank, config):
    torch.set_num_threads(1)  # the processes share the processors
    torch.manual_seed(config["seed"] + idist.get_rank())
    loader = idist.auto_dataloader(Pictures(320, seed=2), batch_size=config["batch_size"], shuffle=True, drop_last=True)
    model = idist.auto_model(make_net())  # the parameters of rank 0 for all
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=config["learning_rate"], momentum=config["momentum"]))

    for epoch in range(config["epochs"]):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # averages the gradients
            optimizer.step()
        accuracy = evaluate(model)
    above = "yes" if accuracy > 0.9 else "no"
    print(f"rank {idist.get_rank()}, local {local_rank}, of {idist.get_world_size()}: accuracy above 0.9: {above}", flush=True)


if __name__ == "__main__":
    processes = {} if "launched" in sys.argv else {"nproc_per_node": 2}
    with idist.Parallel(backend="gloo", **processes) as parallel:
        parallel.run(training, CONFIG)
