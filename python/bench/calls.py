"""The cost of a call from Python: unisono on NumPy beside mpi4py's buffer calls, and objects beside its lower-case calls, in the same run.

    unisono run -n 2 -- python python/bench/calls.py
    mpirun -n 2 python python/bench/calls.py         # beside that MPI, where mpi4py is installed for it

Each call is timed in batches, the two libraries' batches in turn; the median over the batches of the slowest rank counts. Every result is checked.
"""

import argparse
import json
import os
import statistics
import time

import numpy as np

import unisono

try:
    from mpi4py import MPI
except ImportError:
    MPI = None


def sizes(text):
    units = {"KiB": 1 << 10, "MiB": 1 << 20}
    return [int(size[:-3]) * units[size[-3:]] if size[-3:] in units else int(size) for size in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="8,1KiB,64KiB,1MiB,16MiB", type=sizes)
    parser.add_argument("--objects", default="1KiB,1MiB", type=sizes)
    parser.add_argument("--batches", default=15, type=int)
    parser.add_argument("--json", help="also write the rows to this file")
    return parser.parse_args()


def batch_length(nbytes):
    return max(3, min(2000, (64 << 20) // max(nbytes, 1) // 8))


def timed(call, barrier, n):
    barrier()
    started = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - started) / n


def compare(calls, barrier, nbytes, batches):
    """Microseconds of each, in turn; of the slowest rank."""
    n = batch_length(nbytes)
    taken = {name: [] for name in calls}
    for call in calls.values():  # warm
        for _ in range(min(n, 50)):
            call()
    for _ in range(batches):
        for name, call in calls.items():
            taken[name].append(timed(call, barrier, n))
    return {name: statistics.median(unisono.all_gather(np.array(times)).max(axis=0)) * 1e6 for name, times in taken.items()}


def buffer_calls(nbytes, rank, size):
    x = np.full(max(nbytes // 8, 1), rank + 1.0)
    out, all = np.empty_like(x), np.empty((size, x.size))
    blocks, received = np.ones(x.size * size), np.empty(x.size * size)
    comm = MPI and MPI.COMM_WORLD
    calls = {
        "all_reduce": (lambda: unisono.all_reduce(x, out=out), lambda: comm.Allreduce(x, out)),
        "broadcast": (lambda: unisono.broadcast(x), lambda: comm.Bcast(x)),
        "all_gather": (lambda: unisono.all_gather(x, all), lambda: comm.Allgather(x, all)),
        "reduce_scatter": (lambda: unisono.reduce_scatter(blocks, out), lambda: comm.Reduce_scatter_block(blocks, out)),
        "all_to_all": (lambda: unisono.all_to_all(blocks, received), lambda: comm.Alltoall(blocks, received)),
    }
    unisono.all_reduce(x, out=out)
    assert (out == size * (size + 1) / 2).all()
    unisono.barrier()
    return calls


def object_calls(nbytes, rank, size):
    x = {"rank": rank, "array": np.full(max(nbytes // 8, 1), float(rank))}
    right, left = (rank + 1) % size, (rank - 1) % size

    comm = MPI and MPI.COMM_WORLD

    def there_and_back(send, receive):
        if rank == 0:
            send(x, right)
            receive(left)
        elif rank == 1:
            receive(left)
            send(x, 0)

    calls = {
        "all_gather_object": (lambda: unisono.all_gather_object(x), lambda: comm.allgather(x)),
        "broadcast_object": (lambda: unisono.broadcast_object(x), lambda: comm.bcast(x)),
        "gather_object": (lambda: unisono.gather_object(x), lambda: comm.gather(x)),
    }
    if size == 2:
        theirs = lambda: there_and_back(comm.send, lambda source: comm.recv(source=source))  # noqa: E731
        calls["send_object, there and back"] = (lambda: there_and_back(unisono.send_object, unisono.recv_object), theirs)
    assert [y["rank"] for y in unisono.all_gather_object(x)] == list(range(size))
    return calls


def main():
    options = parse()
    # Under mpirun MPI starts first, and unisono finds its job; on shared memory, as without it.
    unisono.initialize(os.environ.get("UNISONO_BACKEND", "native"))
    rank, size = unisono.rank(), unisono.world_size()
    peer = None
    if MPI:
        peer = MPI.Get_library_version().split(",")[0].split("\n")[0].strip("\0 ")[:40]
        if MPI.COMM_WORLD.Get_size() != size:
            globals()["MPI"] = peer = None  # this MPI knows nothing of the job
    rows = []
    if rank == 0:
        print(f"{size} ranks on {unisono.backend()}; beside it: {peer or 'nothing (mpi4py is not here, or was not started by its mpirun)'}")
        print(f"{'call':28} {'bytes':>10} {'unisono µs':>12} {'mpi4py µs':>12} {'times':>7}")
    for kind, list_of_sizes in ((buffer_calls, options.sizes), (object_calls, options.objects)):
        for nbytes in list_of_sizes:
            for name, (ours, theirs) in kind(nbytes, rank, size).items():
                calls = {"unisono": ours} | ({"mpi4py": theirs} if MPI else {})
                taken = compare(calls, unisono.barrier, nbytes, options.batches)
                rows.append({"call": name, "bytes": nbytes, "ranks": size, "peer": peer, **taken})
                if rank == 0:
                    other = taken.get("mpi4py")
                    print(f"{name:28} {nbytes:>10} {taken['unisono']:>12.2f} {other or float('nan'):>12.2f} {(other or float('nan')) / taken['unisono']:>7.2f}", flush=True)
    if rank == 0 and options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    unisono.finalize()


if __name__ == "__main__":
    main()
