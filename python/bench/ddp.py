"""Measures the training steps per second of an MLP with 10 M parameters through DistributedDataParallel, over two backends in the same run and on the
same processes:

    unisono run -n 2 -- python3 python/bench/ddp.py [--backends unisono,gloo] [--batch 16] [--rounds 7] [--steps 10]

The backends take turns. Prints the medians, and how many times more steps the first backend does.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def network():
    torch.manual_seed(1)
    widths = [784, 2048, 2048, 2048, 10]
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backends", default="unisono,gloo")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    backends = options.backends.split(",")
    if "unisono" in backends:
        import unisono.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    x, y = torch.randn(options.batch, 784), torch.randint(10, (options.batch,))
    trainings = {}
    for backend in backends:
        model = DistributedDataParallel(network(), process_group=dist.new_group(backend=backend))
        trainings[backend] = model, torch.optim.SGD(model.parameters(), lr=0.01)

    def seconds_per_step(backend, steps):
        model, optimizer = trainings[backend]
        dist.barrier()
        begun = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        took = torch.tensor((time.perf_counter() - begun) / steps)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return took.item()

    times = {backend: [] for backend in backends}
    for backend in backends:
        seconds_per_step(backend, 3)
    for _ in range(options.rounds):
        for backend in backends:
            times[backend].append(seconds_per_step(backend, options.steps))
    if dist.get_rank() == 0:
        rate = {backend: 1 / statistics.median(times[backend]) for backend in backends}
        parameters = sum(p.numel() for p in trainings[backends[0]][0].parameters())
        told = "  ".join(f"{backend} {rate[backend]:6.2f} steps/s" for backend in backends)
        ratio = f"  {rate[backends[0]] / rate[backends[1]]:5.2f} x" if len(backends) > 1 else ""
        print(f"DDP, {parameters / 1e6:.1f} M parameters, batch {options.batch}  {told}{ratio}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
