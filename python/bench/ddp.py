"""Measures the training steps per second of three networks through DistributedDataParallel, over two backends in the same run and on the same
processes:

    unisono run -n 2 -- python3 python/bench/ddp.py [--backends unisono,gloo] [--networks mlp,transformer,convolution] [--rounds 7] [--steps 10]

A backend may have options behind it: `unisono+view` trains with gradient_as_bucket_view, `unisono+float16` with torch's hook fp16_compress_hook. The
backends take turns. Prints the medians over the rounds, and of the first backend's steps by the others' in the same round the median and the extremes.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

CLASSES = 10
VOCABULARY, WIDTH, LENGTH = 1000, 256, 64


class Transformer(nn.Module):
    """Predicts the next token of short texts."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers=4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, x):
        x = self.tokens(x) + self.places.weight
        return self.head(self.layers(x, mask=self.mask, is_causal=True)).flatten(0, 1)


def mlp(batch):
    widths = [784, 2048, 2048, 2048, CLASSES]
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1]), torch.randn(batch, widths[0]), torch.randint(CLASSES, (batch,))


def transformer(batch):
    text = torch.randint(VOCABULARY, (max(batch // 4, 1), LENGTH + 1))
    return Transformer(), text[:, :-1].contiguous(), text[:, 1:].flatten()


def convolution(batch):
    layers, before = [], 3
    for after, stride in ((64, 2), (128, 2), (256, 2), (512, 2)):
        layers += [nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        before = after
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES)]
    return nn.Sequential(*layers), torch.randn(batch, 3, 32, 32), torch.randint(CLASSES, (batch,))


NETWORKS = {"mlp": mlp, "transformer": transformer, "convolution": convolution}


class Training:
    def __init__(self, network, contender, batch):
        backend, *options = contender.split("+")
        torch.manual_seed(1)
        model, self.x, self.y = NETWORKS[network](batch)
        self.model = DistributedDataParallel(model, process_group=dist.new_group(backend=backend), gradient_as_bucket_view="view" in options)
        if "float16" in options:
            self.model.register_comm_hook(self.model.process_group, default_hooks.fp16_compress_hook)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def parameters(self):
        return sum(p.numel() for p in self.model.parameters())

    def seconds_per_step(self, steps):
        dist.barrier()
        begun = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(self.x), self.y).backward()
            self.optimizer.step()
        took = torch.tensor((time.perf_counter() - begun) / steps)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return took.item()


def compare(network, options):
    contenders = options.backends.split(",")
    trainings = {contender: Training(network, contender, options.batch) for contender in contenders}
    for training in trainings.values():
        training.seconds_per_step(3)
    times = {contender: [] for contender in contenders}
    for _ in range(options.rounds):
        for contender, training in trainings.items():
            times[contender].append(training.seconds_per_step(options.steps))
    if dist.get_rank() != 0:
        return
    first = contenders[0]
    print(f"DDP, {network}, {trainings[first].parameters() / 1e6:.1f} M parameters, batch {options.batch}, {dist.get_world_size()} ranks")
    for contender in contenders:
        ratios = sorted(other / own for own, other in zip(times[first], times[contender]))
        told = f"  {first} {statistics.median(ratios):5.2f} x [{ratios[0]:.2f} … {ratios[-1]:.2f}]" if contender != first else ""
        print(f"  {contender:18} {1 / statistics.median(times[contender]):7.2f} steps/s{told}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="unisono,gloo")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    if "unisono" in options.backends:
        import unisono.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for network in options.networks.split(","):
        compare(network, options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
