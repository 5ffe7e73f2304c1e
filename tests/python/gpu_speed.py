"""Times all_reduce of tensors in a GPU's memory, for scripts/test/gpu: a line for each length, with bytes and microseconds.

gpu_speed.py unisono | parts | gloo | torch-unisono | torch-nccl [BYTES...]

unisono: the package's own call, on the backend that the environment asks for. parts: what a call through the host does, each by itself and in one
piece, on all ranks at the same time; the name of the part follows the figures. The others: torch.distributed, by that backend."""

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


def microseconds(call, size):
    """The time of one of a row of calls: the median of five rows."""
    repeats = 300 if size < 1 << 16 else 30 if size < 1 << 25 else 8
    rows = []
    for _ in range(5):
        call()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
        rows.append((time.perf_counter() - begun) / repeats)
    return sorted(rows)[2] * 1e6


def parts_of(x, all_reduce):
    """The parts of a call through the host, by name. The ranks begin each copy together, as they do in a call."""
    host = torch.ones(x.numel()).pin_memory()
    here, side = torch.cuda.current_stream(), torch.cuda.Stream()

    def copy(to, source, behind):
        all_reduce(torch.ones(1))
        if behind:
            side.wait_stream(here)
        with torch.cuda.stream(side):
            to.copy_(source, non_blocking=True)
        side.synchronize()

    return {
        "to the host": lambda: copy(host, x, False),
        "to the host, behind an event of another stream": lambda: copy(host, x, True),
        "exchange": lambda: all_reduce(host),
        "to the device": lambda: copy(x, host, False),
        "to the host and to the device": lambda: (copy(host, x, False), copy(x, host, False)),
        "all ranks have come": lambda: all_reduce(torch.ones(1)),
        "an empty stream is queried": lambda: here.query(),
    }


def main():
    kind = sys.argv[1]
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    all_reduce, rank, end = calls("unisono" if kind == "parts" else kind)
    for size in map(int, sys.argv[2:] or (8, 1 << 20, 16 << 20, 128 << 20)):
        x = torch.ones(size // 4, device="cuda")
        for name, call in (parts_of(x, all_reduce) if kind == "parts" else {"": lambda: all_reduce(x)}).items():
            time_of_one = microseconds(call, size)
            if rank == 0:
                print(f"{size} {time_of_one:.1f} {name}".rstrip(), flush=True)
    end()


main()
