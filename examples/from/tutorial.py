"""The tutorial "Writing Distributed Applications with PyTorch" of 2018; tutorial.cpp has the same lines in C++."""

import os
import socket

import torch
import unisono.torch2018 as dist  # was: import torch.distributed as dist
from torch.multiprocessing import Process


def blocking_messages(rank):
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        dist.send(tensor=tensor, dst=1)
    elif rank == 1:
        dist.recv(tensor=tensor, src=0)
        print(f"rank 1 has received {tensor[0]:g}", flush=True)


def immediate_messages(rank):
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 2
        dist.isend(tensor=tensor, dst=1).wait()
    elif rank == 1:
        request = dist.irecv(tensor=tensor, src=0)
        request.wait()
        print(f"rank 1 has received {tensor[0]:g}, completed: {'yes' if request.is_completed() else 'no'}", flush=True)


def collective_in_a_group(rank):
    group = dist.new_group([0, 1])  # all processes call it
    tensor = torch.ones(1)
    dist.all_reduce(tensor, op=dist.reduce_op.SUM, group=group)  # one that is no member returns at once
    if rank < 2:
        print(f"rank {rank} has the sum {tensor[0]:g}", flush=True)


def message_from_anybody(rank, size):
    if rank != 0:
        return dist.send(torch.tensor([rank, 7.0]), dst=0)
    tensor = torch.zeros(2)
    senders = sum(dist.recv(tensor) for _ in range(1, size))
    print(f"rank 0 has heard ranks that add up to {senders}", flush=True)


def ring_all_reduce(mine, rank, size):
    left, right = (rank - 1) % size, (rank + 1) % size
    total, passed_on, received = mine.clone(), mine.clone(), torch.zeros_like(mine)
    for _ in range(size - 1):
        request = dist.isend(passed_on, right)
        dist.recv(received, left)
        total += received
        request.wait()
        passed_on.copy_(received)
    return total


def run(rank, size):
    blocking_messages(rank)
    immediate_messages(rank)
    collective_in_a_group(rank)
    message_from_anybody(rank, size)
    dist.barrier()  # so that rank 0 takes no message of the ring for one from anybody
    total = ring_all_reduce(torch.tensor([rank, 10.0 * rank]), rank, size)
    print(f"rank {rank} has {total[0]:g} {total[1]:g} from the ring", flush=True)


def init_processes(rank, size, port, function):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    dist.init_process_group("tcp", rank=rank, world_size=size)
    function(rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:  # the tutorial has 29500
        port = free.getsockname()[1]
    processes = [Process(target=init_processes, args=(rank, 3, port, run)) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    raise SystemExit(max(process.exitcode for process in processes))
