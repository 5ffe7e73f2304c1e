"""ignite's CIFAR-10 program on XLA; ignite_xla.cpp has the same lines in C++.

Needs torch_xla. On the processor, as two processes of one device each:  PJRT_DEVICE=CPU unisono run -n 2 -- python ignite_xla.py
"""

import torch
import torch.nn.functional as F
import unisono.ignite as idist  # was: import ignite.distributed as idist
from pictures import Pictures, make_net


def training(local_rank):
    torch.manual_seed(543)  # the same parameters on all ranks, which no wrapper sends
    model = idist.auto_model(make_net())  # on XLA: moved to the device, and the same object
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9))  # its step reduces the gradients
    loader = idist.auto_dataloader(Pictures(320, seed=2), batch_size=32, shuffle=True, drop_last=True)  # wrapped by MpDeviceLoader

    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:  # on the device
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    test = Pictures(100, seed=3)
    with torch.no_grad():
        right = (model(test.images.to(idist.device())).argmax(1) == test.labels.to(idist.device())).sum().item()
    accuracy = idist.all_reduce(right) / (100 * idist.get_world_size())
    above = "yes" if accuracy > 0.9 else "no"
    print(f"rank {idist.get_rank()}, local {local_rank}, of {idist.get_world_size()}: accuracy above 0.9: {above}", flush=True)


if __name__ == "__main__":
    with idist.Parallel(backend="xla-tpu") as parallel:
        parallel.run(training)
