"""Calls of torch.distributed.rpc, for scripts/bench/controller. Arguments are tensors, which travel without a copy into a pickle."""

import os
import sys

import measure
import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as multiprocessing


def work(rank, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    rpc.init_rpc("worker", rank=1, world_size=2)
    rpc.shutdown()


def main():
    port = sys.argv[2]
    worker = multiprocessing.spawn(work, (port,), nprocs=1, join=False)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    rpc.init_rpc("controller", rank=0, world_size=2)

    def flight(n):
        for future in [rpc.rpc_async("worker", measure.nothing) for _ in range(n)]:
            future.wait()

    measure.measure("torch.distributed.rpc", torch.__version__, lambda: rpc.rpc_sync("worker", measure.nothing), flight,
                    lambda x: rpc.rpc_sync("worker", measure.last_of, (x,)), make=lambda: torch.ones(measure.LARGE // 8, dtype=torch.float64))
    rpc.shutdown()
    worker.join()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
