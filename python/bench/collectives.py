"""all_reduce from Python over two backends, in the same run and on the same processes:

    unisono run -n 2 -- python3 python/bench/collectives.py [--backends unisono,gloo] [--sizes 1024,67108864] [--seconds 1]

Prints for each size the median time of a call on the slowest rank, and how many times faster the first backend is. The backends take turns, so that
disturbances of the machine affect both.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist


def seconds_per_call(group, tensor, seconds):
    """Returns the mean of many calls in a row."""
    dist.all_reduce(tensor, group=group)
    dist.barrier(group)
    begun = time.perf_counter()
    dist.all_reduce(tensor, group=group)
    calls = torch.tensor(max(1, min(2000, int(seconds / max(time.perf_counter() - begun, 1e-6)))))
    dist.broadcast(calls, 0, group=group)
    dist.barrier(group)
    begun = time.perf_counter()
    for _ in range(int(calls)):
        dist.all_reduce(tensor, group=group)
    return (time.perf_counter() - begun) / int(calls)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backends", default="unisono,gloo")
    parser.add_argument("--sizes", default="1024,67108864")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args()
    backends = options.backends.split(",")
    if "unisono" in backends:
        import unisono.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {backend: dist.new_group(backend=backend) for backend in backends}
    for size in map(int, options.sizes.split(",")):
        times = {backend: [] for backend in backends}
        tensor = torch.zeros(size // 4)
        for _ in range(options.rounds):
            for backend, group in groups.items():
                took = torch.tensor(seconds_per_call(group, tensor, options.seconds))
                dist.all_reduce(took, dist.ReduceOp.MAX)
                times[backend].append(took.item())
        if dist.get_rank() == 0:
            medians = {backend: statistics.median(times[backend]) for backend in backends}
            told = "  ".join(f"{backend} {medians[backend] * 1e6:10.1f} us" for backend in backends)
            print(f"all_reduce {size:9} bytes  {told}" + (f"  {medians[backends[1]] / medians[backends[0]]:6.1f} x" if len(backends) > 1 else ""))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
