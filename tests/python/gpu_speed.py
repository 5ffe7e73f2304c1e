"""Times all_reduce of tensors in a GPU's memory, for scripts/test-gpu.sh: a line for each length, with bytes and microseconds.

gpu_speed.py unisono | gloo | torch-unisono | torch-nccl [BYTES...]

unisono: the package's own call, on the backend that the environment asks for. The others: torch.distributed, by that backend."""

import os
import sys
import time

import torch


def calls(kind):
    """Returns all_reduce of a tensor, the rank, and the end."""
    if kind == "unisono":
        import unisono

        unisono.initialize()
        return lambda x: unisono.all_reduce(x, "max"), unisono.rank(), unisono.finalize
    import torch.distributed as dist

    if kind == "torch-unisono":
        import unisono.torch  # noqa: F401
    dist.init_process_group(kind.removeprefix("torch-"))
    return lambda x: dist.all_reduce(x, dist.ReduceOp.MAX), dist.get_rank(), dist.destroy_process_group


def main():
    kind = sys.argv[1]
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    all_reduce, rank, end = calls(kind)
    for size in map(int, sys.argv[2:] or (8, 1 << 20, 16 << 20, 128 << 20)):
        x = torch.ones(size // 4, device="cuda")
        repeats = 300 if size < 1 << 16 else 30 if size < 1 << 25 else 8
        rows = []
        for _ in range(5):
            all_reduce(x)
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(repeats):
                all_reduce(x)
            torch.cuda.synchronize()
            rows.append((time.perf_counter() - begun) / repeats)
        if rank == 0:
            print(f"{size} {sorted(rows)[2] * 1e6:.1f}", flush=True)
    end()


main()
