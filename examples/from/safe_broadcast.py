"""A broadcast whose receivers know nothing of what comes: ignite's safe_mode; safe_broadcast.cpp is the same in C++.

    unisono run -n 2 -- python safe_broadcast.py
"""

import torch
import unisono.ignite as idist  # was: import ignite.distributed as idist


def from_source(value):
    """Only rank 0 gives a value. Kind, dtype, shape and content come from it."""
    return idist.broadcast(value if idist.get_rank() == 0 else None, src=0, safe_mode=True)


def main(local_rank):
    rank = idist.get_rank()
    x = torch.tensor([1.5, 2.5, 3.5])
    number, text, tensor = from_source(16777217), from_source("naïve"), from_source(x)
    print(f"rank {rank}: {number} {text}, {tensor.numel()} elements", flush=True)

    known = idist.broadcast(x if rank == 0 else torch.zeros(3), src=0)  # the receivers know the kind
    print(f"rank {rank}:", *(f"{value:g}" for value in known.tolist()), flush=True)


if __name__ == "__main__":
    with idist.Parallel(backend="gloo") as parallel:
        parallel.run(main)
